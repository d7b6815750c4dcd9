-- The streams of NEXMark, from the files that `tidegate nexmark generate` writes below $DATA.
CREATE STREAM Person(id BIGINT NOT NULL, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
                     dateTime TIMESTAMP NOT NULL, extra STRING)
  SOURCE parquet('$DATA/person') ORDERED BY dateTime WITH (slack = '4 seconds');
CREATE STREAM Auction(id BIGINT NOT NULL, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
                      dateTime TIMESTAMP NOT NULL, expires TIMESTAMP NOT NULL, seller BIGINT NOT NULL,
                      category BIGINT NOT NULL, extra STRING)
  SOURCE parquet('$DATA/auction') ORDERED BY dateTime WITH (slack = '4 seconds');
CREATE STREAM Bid(auction BIGINT NOT NULL, bidder BIGINT NOT NULL, price BIGINT NOT NULL, channel STRING, url STRING,
                  dateTime TIMESTAMP NOT NULL, extra STRING)
  SOURCE parquet('$DATA/bid') ORDERED BY dateTime WITH (slack = '4 seconds');
