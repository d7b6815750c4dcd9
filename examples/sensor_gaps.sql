-- Gaps in sensor data: which sensors have said nothing for three minutes, at every instant?
-- Run from the project's directory: .venv/bin/tidegate run examples/sensor_gaps.sql
CREATE STREAM Reading(sensor STRING, value DOUBLE, t TIMESTAMP)
  SOURCE csv('examples/sensor_gaps.csv') ORDERED BY t;

-- The latest reading of each sensor; its TS is when it was taken.
CREATE STREAM Latest OVER Reading KEY sensor;

SELECT sensor FROM Latest WHERE TS <= NOW - INTERVAL 3 MINUTES;

VERIFY SELECT sensor FROM Latest WHERE TS <= NOW - INTERVAL 3 MINUTES;
