"""Outgoing webhooks: their management, and the delivery of events to them (ADR 90)."""
