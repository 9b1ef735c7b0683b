"""The cache of link previews and the rate per host (ADR 78)."""
