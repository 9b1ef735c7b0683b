"""Users who have blocked others."""
