"""The cost of presence."""
