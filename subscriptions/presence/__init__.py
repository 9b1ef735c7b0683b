"""Presence on one process: its connected devices, the servers that are alive, and the users that it shows (ADR 80)."""
