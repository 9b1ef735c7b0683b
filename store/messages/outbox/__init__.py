"""The outbox: messages and revisions that are not delivered yet."""
