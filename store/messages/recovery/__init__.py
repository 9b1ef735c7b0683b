"""Reads of messages after a loss of Redis."""
