"""Files at the API."""
