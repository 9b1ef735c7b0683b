"""Presence: the devices of users, what users have set, and what others see of both (ADR 80, 81)."""
