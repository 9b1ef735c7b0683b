"""The devices that users have registered (ADR 82)."""
