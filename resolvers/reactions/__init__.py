"""Use cases on reactions."""
