"""Checks of what Redis has."""
