"""Threads at the API."""
