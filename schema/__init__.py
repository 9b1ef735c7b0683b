"""The GraphQL surface: types, inputs, root fields, loaders, error mapping, the engine."""
