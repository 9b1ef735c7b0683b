"""Content rules of workspaces."""
