"""GraphQL of reports (ADR 97)."""
