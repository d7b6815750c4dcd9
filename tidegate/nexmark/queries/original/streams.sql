-- The streams of the original auction, from the files that `tidegate nexmark generate --original` writes below $DATA.
CREATE STREAM OpenAuction(itemID INT NOT NULL, sellerID INT NOT NULL, start_price DOUBLE, timestamp TIMESTAMP NOT NULL)
  SOURCE parquet('$DATA/openauction') ORDERED BY timestamp;
CREATE STREAM ClosedAuction(itemID INT NOT NULL, buyerID INT, timestamp TIMESTAMP NOT NULL)
  SOURCE parquet('$DATA/closedauction') ORDERED BY timestamp;
CREATE STREAM Bid(itemID INT NOT NULL, bid_price DOUBLE, bidderID INT, timestamp TIMESTAMP NOT NULL)
  SOURCE parquet('$DATA/bid') ORDERED BY timestamp;
CREATE STREAM Person(id INT NOT NULL, name STRING, city STRING, state STRING, timestamp TIMESTAMP NOT NULL)
  SOURCE parquet('$DATA/person') ORDERED BY timestamp;
CREATE STREAM Item(id INT NOT NULL, name STRING, categoryID INT NOT NULL, timestamp TIMESTAMP NOT NULL)
  SOURCE parquet('$DATA/item') ORDERED BY timestamp;
CREATE TABLE Category(id INT NOT NULL, name STRING) FROM parquet('$DATA/category');
