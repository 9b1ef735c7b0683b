"""Retention: messages expire after some days, and are then removed (ADR 99)."""
