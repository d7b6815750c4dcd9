-- q18 as a numbered sub-query; of simultaneous bids it shows the least by all columns, where q18 shows the one that came last.
SELECT auction, bidder, price, channel, url, bidTime, extra
FROM (SELECT auction, bidder, price, channel, url, dateTime AS bidTime, extra,
             ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS rank_number
      FROM Bid WINDOW(RANGE UNBOUNDED))
WHERE rank_number <= 1;
