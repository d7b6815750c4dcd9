-- q14 with a function of the user's that counts the letters.
SELECT auction, bidder, 0.908 * price AS price,
       CASE WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
            WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime'
            ELSE 'otherTime' END AS bidTimeType,
       dateTime, extra, count_char(extra, 'c') AS c_counts
FROM Bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
