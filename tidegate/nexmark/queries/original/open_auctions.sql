-- The auctions that are open.
SELECT itemID, sellerID, start_price
FROM OpenAuction WINDOW(RANGE UNBOUNDED)
WHERE itemID NOT IN (SELECT itemID FROM ClosedAuction WINDOW(RANGE UNBOUNDED));
