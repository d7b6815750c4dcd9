-- The bids on one auction of 123, with their prices.
SELECT auction, price FROM Bid WHERE auction % 123 = 0;
