"""Notes of what users may have to be notified of (ADR 87)."""
