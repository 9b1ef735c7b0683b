"""The GraphQL API: types, inputs, root fields, loaders, errors and the engine that executes operations."""
