"""The query `searchMessages` and its types."""
