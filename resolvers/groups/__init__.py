"""Use cases on groups: creating them, changing them, and who may do what."""
