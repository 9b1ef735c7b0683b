"""Use cases on sessions: lists, synchronisation, reading and settings."""
