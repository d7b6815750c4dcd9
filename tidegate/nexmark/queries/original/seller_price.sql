-- The average of the last ten closing prices of each seller.
CREATE STREAM ClosingPrice AS
  SELECT P.itemID, O.sellerID, MAX(P.price) AS price
  FROM (SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE 2 DAYS)
        UNION ALL
        SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE 2 DAYS)) P,
       ClosedAuction C, OpenAuction WINDOW(RANGE 2 DAYS) O
  WHERE P.itemID = C.itemID AND C.itemID = O.itemID
  GROUP BY P.itemID, O.sellerID;
SELECT sellerID, AVG(price) AS average
FROM ClosingPrice WINDOW(PARTITION BY sellerID ROWS 10)
GROUP BY sellerID;
