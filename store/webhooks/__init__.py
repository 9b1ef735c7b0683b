"""Webhooks: their rows, the log of events, and deliveries (ADR 90, 91)."""
