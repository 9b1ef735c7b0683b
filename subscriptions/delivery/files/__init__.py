"""Removal of files that nobody needs, and virus scans that are not settled."""
