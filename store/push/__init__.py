"""Pushes that wait: what Redis keeps about them."""
