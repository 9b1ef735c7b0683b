"""Voice states: who is in which voice channel (ADR 83)."""
