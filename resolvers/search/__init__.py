"""Searching for messages."""
