"""Searches for messages (ADR 85)."""
