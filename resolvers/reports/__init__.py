"""Reports: made by users, listed and resolved by moderators (ADR 97)."""
