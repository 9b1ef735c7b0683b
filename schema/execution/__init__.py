"""The GraphQL engine: limits, cost, execution and event rendering."""
