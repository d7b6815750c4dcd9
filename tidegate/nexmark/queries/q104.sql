-- The auctions that have had fewer than 20 bids, or none.
SELECT id, itemName
FROM Auction WINDOW(RANGE UNBOUNDED)
WHERE id NOT IN (SELECT auction FROM Bid WINDOW(RANGE UNBOUNDED) GROUP BY auction HAVING COUNT(*) >= 20);
