"""Copies of workspaces in the memory of a process, and what shows that they are up to date."""
