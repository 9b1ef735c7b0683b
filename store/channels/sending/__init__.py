"""Sending to channels: the rights that a message needs, and its place."""
