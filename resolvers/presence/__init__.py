"""Use cases of presence and devices: rights to see users, settings, registered devices (ADR 80, 82)."""
