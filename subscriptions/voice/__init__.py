"""Voice states on one process: their changes and events, and the devices that are in voice (ADR 83)."""
