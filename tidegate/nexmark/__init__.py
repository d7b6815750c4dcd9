"""NEXMark: an online auction as a stream of persons, auctions and bids, and the questions people ask of it."""
