-- Bids with their auction, where the two are less than 10 seconds apart.
SELECT B.auction, B.bidder, B.price, A.seller
FROM Bid WINDOW(RANGE 10 SECONDS) B JOIN Auction WINDOW(RANGE 10 SECONDS) A ON B.auction = A.id;
