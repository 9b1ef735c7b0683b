"""Event streams over HTTP (server-sent events)."""
