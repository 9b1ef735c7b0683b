"""The cost of threads, reactions and pins."""
