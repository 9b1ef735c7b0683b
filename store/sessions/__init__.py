"""Session state: rows in MongoDB, records in Redis, and the lock that orders changes to them."""
