"""Event kinds: one class per kind, listed in `registry.py`."""
