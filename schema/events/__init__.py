"""Subscriptions at the API: the GraphQL type of each event kind, listed in `registry.py`."""
