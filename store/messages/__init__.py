"""Messages: places, storage, edits, recalls and idempotency keys."""
