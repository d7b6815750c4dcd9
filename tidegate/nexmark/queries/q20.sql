-- Every bid so far on an auction of category 10, with that auction.
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime AS bidTime, B.extra AS bidExtra,
       A.itemName, A.description, A.initialBid, A.reserve, A.dateTime AS opened, A.expires, A.seller, A.category, A.extra
FROM Bid WINDOW(RANGE UNBOUNDED) B JOIN Auction WINDOW(RANGE UNBOUNDED) A ON B.auction = A.id
WHERE A.category = 10;
