"""GraphQL of presence and devices."""
