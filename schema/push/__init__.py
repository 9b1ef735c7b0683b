"""GraphQL of push notifications."""
