"""Announcements of changes that are stored: SYSTEM messages, events of pins, and publications of revisions."""
