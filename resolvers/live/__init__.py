"""Use cases behind subscriptions: replay, then live events."""
