"""The operating-system process: limits, garbage collection, threads and shutdown."""
