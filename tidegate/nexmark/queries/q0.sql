-- Every bid as it is: what does reading and writing cost?
SELECT auction, bidder, price, channel, url, dateTime, extra FROM Bid;
