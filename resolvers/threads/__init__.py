"""Threads: reading, following and locking them."""
