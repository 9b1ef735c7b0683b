"""Channels: memberships of PRIVATE ones, and the rights of users in them."""
