-- Who in Oregon, Idaho or California has ever offered something in category 10?
SELECT P.name, P.city, P.state, A.id
FROM Auction WINDOW(RANGE UNBOUNDED) A, Person WINDOW(RANGE UNBOUNDED) P
WHERE A.seller = P.id AND A.category = 10 AND P.state IN ('OR', 'ID', 'CA');
