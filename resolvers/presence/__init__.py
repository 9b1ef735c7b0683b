"""Use cases of presence and devices: who may see whom, and what a user sets (ADR 80, 82)."""
