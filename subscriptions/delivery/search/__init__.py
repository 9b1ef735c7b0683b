"""Messages on their way into the index of the search (ADR 85)."""
