-- The average closing price per category, of the auctions closed in the last hour.
CREATE STREAM ClosingPrice AS
  SELECT P.itemID, O.sellerID, MAX(P.price) AS price
  FROM (SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE 2 DAYS)
        UNION ALL
        SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE 2 DAYS)) P,
       ClosedAuction C, OpenAuction WINDOW(RANGE 2 DAYS) O
  WHERE P.itemID = C.itemID AND C.itemID = O.itemID
  GROUP BY P.itemID, O.sellerID;
SELECT K.name, AVG(P.price) AS average
FROM ClosingPrice WINDOW(RANGE 1 HOUR) P, Item WINDOW(RANGE UNBOUNDED) I, Category K
WHERE P.itemID = I.id AND I.categoryID = K.id
GROUP BY K.name;
