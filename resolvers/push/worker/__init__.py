"""From a delivered message to calls of push services (ADR 87)."""
