-- q7 over tumbling windows [s, s + 10 seconds).
WITH Tumble AS (SELECT auction, price, bidder, dateTime
                FROM Bid WINDOW(FROM 10000000 * i TO 10000000 * i + 9999999 EVERY 10 SECONDS
                                STARTING AT TIMESTAMP '2015-07-15 00:00:00'))
SELECT T.auction, T.price, T.bidder, T.dateTime
FROM Tumble T JOIN (SELECT MAX(price) AS most FROM Tumble) M ON T.price = M.most;
