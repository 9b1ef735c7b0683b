"""Indexing of delivered messages for search (ADR 85)."""
