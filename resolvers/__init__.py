"""Use cases and domain rules, one module per aggregate. No GraphQL, no driver."""
