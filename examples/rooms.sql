-- Which rooms were above 80 degrees in the last five ticks, at every instant?
CREATE STREAM Temp(room STRING, degrees INT, t BIGINT)
  SOURCE csv('examples/rooms.csv') ORDERED BY t;

CREATE STREAM Hot AS
  SELECT room, degrees FROM Temp WINDOW(RANGE 5) WHERE degrees > 80;

SELECT room, MAX(degrees) AS top FROM Hot GROUP BY room;

-- How many hot rooms were there at instant 8?
SELECT COUNT(DISTINCT room) AS hot_rooms FROM Hot AS OF 8;

-- Is all of that right? Compare with the definition at every instant at which something changes.
VERIFY SELECT room, MAX(degrees) AS top FROM Hot GROUP BY room;
