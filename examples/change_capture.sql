-- Change data capture to a table: a database's change events (as Debezium writes them) become the table that they describe, at every instant.
-- Run from the project's directory: .venv/bin/tidegate run examples/change_capture.sql
REGISTER SOURCE CustomerLog(id INT, name STRING, city STRING, op STRING, ts_ms BIGINT)
  FROM json('examples/change_capture.jsonl') ORDERED BY ts_ms WITH (format = 'debezium');
CREATE STREAM Customer OVER CustomerLog KEY id OPERATION op;

-- The table's history: every row with the time during which it was there.
SELECT id, name, city FROM Customer;

-- Customers per city as it stood at 2500; live, INSERT INTO … SELECT COMPLETE keeps the latest one in a directory.
SELECT city, COUNT(*) AS customers FROM Customer GROUP BY city AS OF 2500;

VERIFY SELECT id, name, city FROM Customer;
