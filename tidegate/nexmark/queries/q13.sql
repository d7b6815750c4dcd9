-- Every bid with the text that a table holds for its auction.
CREATE TABLE Side(key BIGINT NOT NULL, value STRING) FROM parquet('$DATA/side');
SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
FROM Bid B JOIN Side S ON B.auction % 10000 = S.key;
