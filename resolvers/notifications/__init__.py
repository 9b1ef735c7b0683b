"""Use cases of notification settings."""
