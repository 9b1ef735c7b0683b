"""Exports of a user's data at the API."""
