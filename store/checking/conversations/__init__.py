"""Checks of what conversations store."""
