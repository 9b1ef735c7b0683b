"""Use cases on conversations: access rules and typing."""
