"""Channels: rights, memberships, followers, sessions and removal."""
