"""Pinned messages."""
