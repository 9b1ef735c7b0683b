"""Incoming webhooks: their management, and the messages that they send into channels."""
