"""Workspaces: their policy (roles, channels, overwrites), their members, and the rights that follow."""
