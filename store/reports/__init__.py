"""Reports about messages, users and files (ADR 97)."""
