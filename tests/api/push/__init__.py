"""Push notifications at the API."""
