"""Erases users (ADR 94)."""
