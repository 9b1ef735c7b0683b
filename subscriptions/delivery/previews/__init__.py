"""The worker of link previews (ADR 78)."""
