"""GraphQL of notification settings."""
