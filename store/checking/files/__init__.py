"""Checks of files."""
