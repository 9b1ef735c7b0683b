"""Changes of what decides rights in a workspace."""
