-- The bids on five items.
SELECT itemID, bid_price FROM Bid WHERE itemID IN (1007, 1020, 1021, 1022, 1030);
