"""Use cases on pinned messages."""
