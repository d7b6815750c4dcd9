-- Pair trading: tell me while the average ratio of two stocks' prices over the last 10 ticks
-- is more than 10 % away from the usual 5 to 3.
CREATE STREAM Ticker(stock STRING, price DOUBLE, t BIGINT)
  SOURCE csv('examples/stocks.csv') ORDERED BY t;
CREATE STREAM AG1 AS SELECT price FROM Ticker WINDOW(RANGE 10) WHERE stock = 'AG1';
CREATE STREAM AG2 AS SELECT price FROM Ticker WINDOW(RANGE 10) WHERE stock = 'AG2';

SELECT ratio
FROM (SELECT AVG(AG1.price / AG2.price) AS ratio FROM AG1, AG2) AS average
WHERE ABS(average.ratio - 5/3) > 0.1 * 5/3;

VERIFY SELECT AVG(AG1.price / AG2.price) AS ratio FROM AG1, AG2;
