-- The highest bids of the last 10 seconds, renewed every 10 seconds.
SELECT B.auction, B.price, B.bidder, B.dateTime
FROM Bid WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS) B
WHERE B.price = (SELECT MAX(price) FROM Bid WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS));
