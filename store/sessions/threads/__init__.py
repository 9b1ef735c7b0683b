"""Sessions of threads: their changes, and access to the parent conversation (ADR 70)."""
