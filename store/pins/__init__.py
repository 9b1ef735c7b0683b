"""Pinned messages of conversations (ADR 73)."""
