-- Forms that other systems have, over the temperatures of rooms.
-- Run from the project's directory: .venv/bin/tidegate run examples/forms.sql
CREATE STREAM Rooms SOURCE csv('examples/rooms.csv') ORDERED BY t;

-- Flink's windows: the warmest measurement of each window of five ticks, from its last tick on.
SELECT window_start, window_end, MAX(degrees) AS top
FROM TABLE(TUMBLE(TABLE Rooms, DESCRIPTOR(t), 5)) GROUP BY window_start, window_end;

-- Each measurement beside the one before it in the same room.
SELECT room, degrees, LAG(degrees) OVER (PARTITION BY room ORDER BY t) AS before FROM Rooms;

-- How many measurements each room has sent in the last five ticks, and all of them together.
SELECT room, COUNT(*) AS n FROM Rooms WINDOW(RANGE 5) GROUP BY ROLLUP(room) AS OF 4;
