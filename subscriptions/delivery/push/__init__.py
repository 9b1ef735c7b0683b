"""Notes for the workers of pushes: new messages, and notifications to remove (ADR 87)."""
