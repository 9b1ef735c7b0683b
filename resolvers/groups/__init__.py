"""Use cases on groups: creating, reading and changing them, and the rights of members."""
