"""Search at the API: the query and its types."""
