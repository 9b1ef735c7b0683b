"""A world in which users search, a naive reader, and a naive matcher: they use nothing of the search itself."""
