"""Checks of what workspaces store."""
