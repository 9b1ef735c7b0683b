"""Content rules of workspaces, and the external hook (ADR 98)."""
