-- Every bid so far of a person who also offers something, with the person and the auction offered.
SELECT B.auction, B.bidder, B.price, B.dateTime AS bidTime, P.name, P.city, P.state, A.id, A.itemName, A.category
FROM Bid WINDOW(RANGE UNBOUNDED) B
     JOIN Person WINDOW(RANGE UNBOUNDED) P ON B.bidder = P.id
     JOIN Auction WINDOW(RANGE UNBOUNDED) A ON B.bidder = A.seller;
