-- Every bid with its price in euros.
SELECT itemID, CAST(bid_price * 0.92 AS DECIMAL(20, 2)) AS euros, bidderID FROM Bid;
