-- The average price of the last 10 auctions that each seller closed with a winner.
-- An auction is valid while it is open; it closes at the instant at which it stops to be.
CREATE STREAM Running(id BIGINT NOT NULL, dateTime TIMESTAMP NOT NULL, expires TIMESTAMP NOT NULL)
  SOURCE parquet('$DATA/auction') VALID (dateTime, expires) WITH (slack = '4 seconds');
CREATE STREAM Closed AS DSTREAM(SELECT id FROM Running);
CREATE STREAM Won AS
  SELECT A.id, A.seller, MAX(B.price) AS final
  FROM Closed C, Auction WINDOW(RANGE UNBOUNDED) A, Bid WINDOW(RANGE UNBOUNDED) B
  WHERE C.id = A.id AND A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  GROUP BY A.id, A.seller;
SELECT seller, AVG(final) AS average
FROM Won WINDOW(PARTITION BY seller ROWS 10)
GROUP BY seller;
