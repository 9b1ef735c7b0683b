"""Incoming webhooks, which send messages to channels, and outgoing webhooks, which receive events."""
