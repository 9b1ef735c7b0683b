"""Folding of texts, terms of messages, and queries for messages (ADR 86). Pure functions."""
