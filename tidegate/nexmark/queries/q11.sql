-- How many bids has each bidder made in the session that he is in? A session ends after 10 seconds without a bid.
SELECT bidder, COUNT(*) AS bids, MIN(dateTime) AS since
FROM Bid WINDOW(PARTITION BY bidder SESSION 10 SECONDS)
GROUP BY bidder;
