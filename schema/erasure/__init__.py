"""Erasure of users at the API."""
