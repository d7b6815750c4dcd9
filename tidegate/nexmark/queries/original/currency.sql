-- Every bid with its price in euros.
SELECT itemID, bid_price * 0.92D AS euros, bidderID FROM Bid;
