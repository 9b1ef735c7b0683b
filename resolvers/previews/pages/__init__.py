"""Reads what web pages say about themselves."""
