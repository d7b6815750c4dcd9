-- q5 as hopping windows [s, s + 10 seconds), each joined with its own maximum.
WITH Hop AS (SELECT auction, COUNT(*) AS num
             FROM Bid WINDOW(FROM 2000000 * i TO 2000000 * i + 9999999 EVERY 2 SECONDS
                             STARTING AT TIMESTAMP '2015-07-14 23:59:52')
             GROUP BY auction)
SELECT H.auction, H.num
FROM Hop H JOIN (SELECT MAX(num) AS most FROM Hop) M ON H.num >= M.most;
