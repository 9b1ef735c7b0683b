"""Events of outgoing webhooks: noted when they become visible, then moved to the log (ADR 90)."""
