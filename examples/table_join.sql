-- A stream beside a table: what did each sale bring? Rows of a table are valid at every instant, so it needs no window.
-- Run from the project's directory: .venv/bin/tidegate run examples/table_join.sql
CREATE STREAM Sale(product INT, pieces INT, t BIGINT) SOURCE csv('examples/table_join.csv') ORDERED BY t;
CREATE TABLE Product(product INT, name STRING, price INT) FROM csv('examples/products.csv');

-- LEFT JOIN keeps the sale of a product that the table does not have.
SELECT p.name, s.pieces * p.price AS money FROM Sale s LEFT JOIN Product p ON p.product = s.product;

-- Turnover of the last three ticks, at every instant.
SELECT p.name, SUM(s.pieces * p.price) AS turnover
FROM Sale WINDOW(RANGE 3) s JOIN Product p ON p.product = s.product GROUP BY p.name;

VERIFY SELECT p.name, SUM(s.pieces * p.price) AS turnover
FROM Sale WINDOW(RANGE 3) s JOIN Product p ON p.product = s.product GROUP BY p.name;
