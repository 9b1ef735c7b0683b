"""Blocks that a process keeps in memory, and announcements of changes to all servers."""
