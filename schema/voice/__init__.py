"""GraphQL of voice states."""
