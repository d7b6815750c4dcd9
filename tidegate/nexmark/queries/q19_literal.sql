-- q19 as a numbered sub-query.
SELECT auction, bidder, price, channel, url, bidTime, extra
FROM (SELECT auction, bidder, price, channel, url, dateTime AS bidTime, extra,
             ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
      FROM Bid WINDOW(RANGE UNBOUNDED))
WHERE rank_number <= 10;
