"""MongoDB: the client, collection names, indexes, shard keys and migrations."""
