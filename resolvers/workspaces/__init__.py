"""Use cases on workspaces: members, roles, channels."""
