"""Tuning of Python's garbage collector."""

from __future__ import annotations

import gc

_ALLOCATIONS_BEFORE_COLLECTION = 10_000
"""Number of new objects that triggers a collection. Python's default is 700, but a message creates hundreds of objects
that reference counting frees."""


def tune_garbage_collection() -> None:
    """Exclude loaded objects from collection, and collect less often. Call it after the process has loaded its code."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BEFORE_COLLECTION, 10, 10)
