-- The last bid of each bidder on each auction.
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM Bid WINDOW(PARTITION BY bidder, auction ROWS 1);
