"""GraphQL of webhooks (ADR 90, 91)."""
