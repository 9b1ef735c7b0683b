"""Shared clocks: the clock of a workspace, or of a conversation that people look at, in Redis alone."""
