-- Stays hot: which machines have been above 80 degrees for five minutes without a break?
-- Run from the project's directory: .venv/bin/tidegate run examples/stays_hot.sql
CREATE STREAM Reading(machine STRING, degrees INT, t TIMESTAMP)
  SOURCE csv('examples/stays_hot.csv') ORDERED BY t;
CREATE STREAM Latest OVER Reading KEY machine;

-- A row of this view is a machine, not a temperature: it stays as long as the machine is hot, and TS is when it came.
CREATE VIEW Hot AS SELECT machine FROM Latest WHERE degrees > 80;

SELECT machine FROM Hot WHERE TS <= NOW - INTERVAL 5 MINUTES;

VERIFY SELECT machine FROM Hot WHERE TS <= NOW - INTERVAL 5 MINUTES;
