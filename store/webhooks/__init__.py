"""Webhooks: their rows, events that wait, and deliveries."""
