-- The 1,000 auctions with the most bids so far.
SELECT A.id, A.itemName, COUNT(*) AS bids
FROM Auction WINDOW(RANGE UNBOUNDED) A JOIN Bid WINDOW(RANGE UNBOUNDED) B ON A.id = B.auction
GROUP BY A.id, A.itemName
ORDER BY bids DESC LIMIT 1000;
