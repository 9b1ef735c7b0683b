"""Use cases of voice channels (ADR 83)."""
