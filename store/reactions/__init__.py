"""Reactions to messages: rows, which are the truth, and a summary in each message's row."""
