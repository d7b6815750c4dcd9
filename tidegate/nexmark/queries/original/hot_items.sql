-- The items with the most bids in the last hour, renewed every minute.
SELECT itemID, num
FROM (SELECT B1.itemID AS itemID, COUNT(*) AS num
      FROM Bid WINDOW(RANGE 60 MINUTES SLIDE 1 MINUTE) B1 GROUP BY B1.itemID)
WHERE num >= ALL (SELECT COUNT(*) FROM Bid WINDOW(RANGE 60 MINUTES SLIDE 1 MINUTE) B2 GROUP BY B2.itemID);
