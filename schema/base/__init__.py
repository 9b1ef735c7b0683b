"""Parts that all types use: the request context, loaders, interfaces, scalars and errors."""
