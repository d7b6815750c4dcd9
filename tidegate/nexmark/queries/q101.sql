-- Every auction with its highest bid so far, if it has one.
SELECT A.id, A.itemName, M.highest
FROM Auction WINDOW(RANGE UNBOUNDED) A
     LEFT JOIN (SELECT auction, MAX(price) AS highest FROM Bid WINDOW(RANGE UNBOUNDED) GROUP BY auction) M ON A.id = M.auction;
