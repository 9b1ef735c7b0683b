"""Webhooks at the API (ADR 90)."""
