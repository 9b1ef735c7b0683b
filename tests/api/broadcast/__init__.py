"""Replies that are also shown in the conversation."""
