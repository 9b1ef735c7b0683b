"""Incoming webhooks, which write into channels, and outgoing ones, which are sent events."""
