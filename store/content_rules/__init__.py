"""Content rules: what messages in the channels of a workspace must not contain (ADR 98)."""
