"""The index of messages, what waits for it, and how far it is complete (ADR 85)."""
