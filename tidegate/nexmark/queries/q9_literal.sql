-- q9 as a numbered sub-query.
SELECT id, itemName, description, initialBid, reserve, opened, expires, seller, category, extra,
       auction, bidder, price, bidTime, bidExtra
FROM (SELECT A.id, A.itemName, A.description, A.initialBid, A.reserve, A.dateTime AS opened, A.expires, A.seller, A.category,
             A.extra, B.auction, B.bidder, B.price, B.dateTime AS bidTime, B.extra AS bidExtra,
             ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime ASC) AS rownum
      FROM Auction WINDOW(RANGE UNBOUNDED) A, Bid WINDOW(RANGE UNBOUNDED) B
      WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires)
WHERE rownum <= 1;
