-- Local items: what is on offer in category 10 by people of Oregon?
SELECT P.name, P.city, O.itemID
FROM OpenAuction WINDOW(RANGE UNBOUNDED) O, Person WINDOW(RANGE UNBOUNDED) P, Item WINDOW(RANGE UNBOUNDED) I
WHERE O.sellerID = P.id AND P.state = 'OR' AND O.itemID = I.id AND I.categoryID = 10;
