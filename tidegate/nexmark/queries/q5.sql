-- Which auctions got the most bids in the last 10 seconds? Renewed every 2 seconds.
WITH Counts AS (SELECT auction, COUNT(*) AS num
                FROM Bid WINDOW(RANGE 10 SECONDS SLIDE 2 SECONDS) GROUP BY auction)
SELECT auction, num FROM Counts WHERE num = (SELECT MAX(num) FROM Counts);
