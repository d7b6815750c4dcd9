-- q5 as the original benchmark words it: no auction got more bids.
SELECT auction, num
FROM (SELECT B1.auction AS auction, COUNT(*) AS num
      FROM Bid WINDOW(RANGE 10 SECONDS SLIDE 2 SECONDS) B1 GROUP BY B1.auction)
WHERE num >= ALL (SELECT COUNT(*) FROM Bid WINDOW(RANGE 10 SECONDS SLIDE 2 SECONDS) B2 GROUP BY B2.auction);
