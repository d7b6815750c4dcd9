-- The current price of every open auction: the highest bid, or the start price where that is more.
SELECT P.itemID, MAX(P.price) AS price
FROM (SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE UNBOUNDED)
      UNION ALL
      SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE UNBOUNDED)) P
WHERE P.itemID NOT IN (SELECT itemID FROM ClosedAuction WINDOW(RANGE UNBOUNDED))
GROUP BY P.itemID;
