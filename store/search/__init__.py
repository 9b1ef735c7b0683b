"""The index of messages, the messages that wait for it, and how far it is complete (ADR 85)."""
