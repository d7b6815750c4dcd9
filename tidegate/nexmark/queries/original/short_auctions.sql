-- The auctions that close within five hours, when they close.
SELECT O.itemID, O.sellerID, O.start_price
FROM OpenAuction WINDOW(RANGE 5 HOURS) O, ClosedAuction C
WHERE O.itemID = C.itemID;
