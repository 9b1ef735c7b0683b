"""Bans from workspaces, and from the whole deployment."""
