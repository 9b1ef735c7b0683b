"""HTTP requests to addresses that users name: which addresses are allowed, and connections to these only (ADR 78)."""
