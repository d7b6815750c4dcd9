-- The auctions that have had at least 20 bids.
SELECT id, itemName
FROM Auction WINDOW(RANGE UNBOUNDED)
WHERE id IN (SELECT auction FROM Bid WINDOW(RANGE UNBOUNDED) GROUP BY auction HAVING COUNT(*) >= 20);
