-- Moving averages of a price: over the last five minutes at every instant, and over the last three prices at each of them.
-- Run from the project's directory: .venv/bin/tidegate run examples/moving_average.sql
CREATE STREAM Quote(price INT, t TIMESTAMP) SOURCE csv('examples/moving_average.csv') ORDERED BY t;

-- It also changes when an old price leaves the window, though no new one comes.
SELECT AVG(price) AS average FROM Quote WINDOW(RANGE 5 MINUTES);

SELECT price, AVG(price) OVER (ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS of_three FROM Quote;

VERIFY SELECT AVG(price) AS average FROM Quote WINDOW(RANGE 5 MINUTES);
