"""The GraphQL types and the query of the audit log."""
