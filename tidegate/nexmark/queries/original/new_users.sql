-- Who opens an auction within 12 hours of registering?
SELECT P.id, P.name, O.itemID
FROM Person WINDOW(RANGE 12 HOURS) P, OpenAuction O
WHERE P.id = O.sellerID;
