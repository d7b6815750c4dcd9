-- Top-k per hour: the two products that sold best in each full hour. The answer is shown from the end of the hour to the end of the next.
-- Run from the project's directory: .venv/bin/tidegate run examples/top_per_hour.sql
CREATE STREAM Sale(product STRING, pieces INT, t TIMESTAMP)
  SOURCE csv('examples/top_per_hour.csv') ORDERED BY t;

-- Without SLIDE it would be the last 60 minutes, at every instant.
SELECT product, SUM(pieces) AS sold FROM Sale WINDOW(RANGE 1 HOUR SLIDE 1 HOUR)
GROUP BY product ORDER BY sold DESC LIMIT 2;

VERIFY SELECT product, SUM(pieces) AS sold FROM Sale WINDOW(RANGE 1 HOUR SLIDE 1 HOUR)
GROUP BY product ORDER BY sold DESC LIMIT 2;
