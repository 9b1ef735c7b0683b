"""Exports of a user's data."""
