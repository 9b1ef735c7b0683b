"""Watchers, and events of reactions at the API."""
