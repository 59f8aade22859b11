"""Takes in submissions: from the exchange and from a platform's archive."""
