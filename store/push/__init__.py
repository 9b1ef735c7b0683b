"""Work that pushes wait for, in Redis: noted conversations and intents (ADR 87)."""
