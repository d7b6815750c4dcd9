-- Files without definitions: they tell their columns themselves.
-- Run from the project's directory: .venv/bin/tidegate run examples/files.sql

DESCRIBE 'examples/rooms.csv';

-- The warmest measurement of the last five ticks, at every instant.
SELECT MAX(degrees) AS top FROM 'examples/rooms.csv' ORDERED BY t WINDOW(RANGE 5);

-- The same with a name; the statement shows the columns that were found.
CREATE STREAM Rooms SOURCE csv('examples/rooms.csv') ORDERED BY t;
SELECT room, COUNT(*) AS n FROM Rooms WINDOW(RANGE 5) GROUP BY room AS OF 8;
