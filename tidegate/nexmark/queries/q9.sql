-- The winning bid of each auction so far: the highest, of equal ones the first.
SELECT A.id, A.seller, A.category, B.bidder, B.price, B.dateTime
FROM Auction WINDOW(RANGE UNBOUNDED) A, Bid WINDOW(RANGE UNBOUNDED) B
WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
QUALIFY ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) <= 1;
