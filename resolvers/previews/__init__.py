"""Link previews: fetching pages and pictures, and reading what they say (ADR 78)."""
