"""Demo data and one-click sign-in for development."""
