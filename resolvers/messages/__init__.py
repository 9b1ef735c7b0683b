"""Use cases on messages: sending, revising, history and receipts."""
