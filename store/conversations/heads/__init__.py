"""Heads: their fields in Redis, and their updates in MongoDB."""
