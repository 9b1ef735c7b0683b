"""Queues of work for pushes in Redis: noted conversations, and intents (ADR 87)."""
