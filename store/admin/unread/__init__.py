"""Explains why the unread count of a session is what it is."""
