"""Reactions at the API: the mutations, and who reacted."""
