"""Users: profiles, revoked tokens and rate limits."""
