"""Demo data, and sign-in with one click for development."""
