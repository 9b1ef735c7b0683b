"""Retention: messages that expire, and their removal."""
