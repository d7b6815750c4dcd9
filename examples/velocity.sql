-- Fraud by velocity: cards that are used too often, and cards that travel too fast.
-- Run from the project's directory: .venv/bin/tidegate run examples/velocity.sql
CREATE STREAM Charge(card STRING, city STRING, amount INT, t TIMESTAMP)
  SOURCE csv('examples/velocity.csv') ORDERED BY t;

-- Three charges or more within a minute: suspicious as long as that is so.
SELECT card, COUNT(*) AS charges, SUM(amount) AS spent FROM Charge WINDOW(RANGE 1 MINUTE)
GROUP BY card HAVING COUNT(*) >= 3;

-- In two cities within ten minutes: told at the moment of the later charge.
SELECT b.card, a.city AS here, b.city AS there
FROM Charge b, Charge WINDOW(RANGE 10 MINUTES) a
WHERE a.card = b.card AND a.t < b.t AND a.city <> b.city;

VERIFY SELECT b.card, a.city AS here, b.city AS there
FROM Charge b, Charge WINDOW(RANGE 10 MINUTES) a
WHERE a.card = b.card AND a.t < b.t AND a.city <> b.city;
