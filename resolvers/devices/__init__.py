"""Use cases of devices: their list, names, push addresses, and removal (ADR 82)."""
