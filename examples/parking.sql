-- A parking lot: which cars are inside, at every instant? Entered, except left: an EXCEPT over two unbounded windows.
CREATE STREAM Gate(plate STRING, gate STRING, t BIGINT)
  SOURCE csv('examples/parking.csv') ORDERED BY t;

CREATE STREAM Entered AS SELECT plate FROM Gate WINDOW(RANGE UNBOUNDED) WHERE gate = 'in';
CREATE STREAM Gone AS SELECT plate FROM Gate WINDOW(RANGE UNBOUNDED) WHERE gate = 'out';
CREATE STREAM Inside AS SELECT plate FROM Entered EXCEPT ALL SELECT plate FROM Gone;

SELECT plate FROM Inside;

-- Who was inside at instant 7?
SELECT plate FROM Inside AS OF 7;

-- How many cars were inside, at every instant?
SELECT COUNT(*) AS cars FROM Inside;

VERIFY SELECT plate FROM Inside;
