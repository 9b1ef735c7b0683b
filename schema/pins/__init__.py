"""Pinned messages at the API."""
