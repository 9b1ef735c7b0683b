"""The operating-system process: limits, garbage collection and shutdown."""
