-- For every auction, how many bids it got in the last 60 seconds, their sum and the highest: at every change, also when a bid leaves.
SELECT auction, COUNT(*) AS bids, SUM(price) AS total, MAX(price) AS highest
FROM Bid WINDOW(RANGE 60 SECONDS)
GROUP BY auction;
