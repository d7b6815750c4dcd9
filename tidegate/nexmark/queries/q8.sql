-- Who registered and opened an auction within the same 10 seconds?
SELECT DISTINCT P.id, P.name
FROM Person WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS) P, Auction WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS) A
WHERE P.id = A.seller;
