"""Blocking of users."""
