-- How many bids came from each bidder in the last 10 seconds of processing time? Renewed every 10 seconds.
-- Processing time is the time at which a row arrived: assigned on entry to a live stream without ORDERED BY, and in recorded data
-- the column in which that was written down.
CREATE STREAM Arriving(auction BIGINT NOT NULL, bidder BIGINT NOT NULL, price BIGINT NOT NULL, arrival TIMESTAMP NOT NULL)
  SOURCE parquet('$DATA/bid') ORDERED BY arrival;
SELECT bidder, COUNT(*) AS bids
FROM Arriving WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS)
GROUP BY bidder;
