"""Runs jobs in the background."""
