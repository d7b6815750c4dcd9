-- The ten highest bids on each auction so far.
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM Bid WINDOW(RANGE UNBOUNDED)
QUALIFY ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) <= 10;
