"""Shared clocks: the clocks of workspaces, in Redis alone."""
