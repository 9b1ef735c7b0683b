"""GraphQL over HTTP, static pages and request logs."""
