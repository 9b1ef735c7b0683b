"""Notification settings: reading and changing them."""
