-- For every auction of the last 10 seconds, the number, sum and maximum of its bids of the last 10 seconds: a join and an aggregate in one query.
SELECT A.id, COUNT(*) AS bids, SUM(B.price) AS total, MAX(B.price) AS highest
FROM Bid WINDOW(RANGE 10 SECONDS) B JOIN Auction WINDOW(RANGE 10 SECONDS) A ON B.auction = A.id
GROUP BY A.id;
