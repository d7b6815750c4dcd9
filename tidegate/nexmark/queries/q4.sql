-- The average, per category, of the highest bid that each auction got while it was open.
SELECT Q.category, AVG(Q.final) AS average
FROM (SELECT A.id, A.category, MAX(B.price) AS final
      FROM Auction WINDOW(RANGE UNBOUNDED) A, Bid WINDOW(RANGE UNBOUNDED) B
      WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
      GROUP BY A.id, A.category) Q
GROUP BY Q.category;
