-- The auctions that have had at least as many bids as the average auction.
SELECT A.id, A.itemName, COUNT(*) AS bids
FROM Auction WINDOW(RANGE UNBOUNDED) A JOIN Bid WINDOW(RANGE UNBOUNDED) B ON A.id = B.auction
GROUP BY A.id, A.itemName
HAVING COUNT(*) >= (SELECT COUNT(*) / COUNT(DISTINCT auction) FROM Bid WINDOW(RANGE UNBOUNDED));
