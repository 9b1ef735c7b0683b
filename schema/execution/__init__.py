"""Execution of operations: the engine, limits on queries, and the rendering of events for subscribers."""
