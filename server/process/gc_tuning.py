"""Tuning of Python's garbage collector."""

from __future__ import annotations

import gc

_ALLOCATIONS_BEFORE_COLLECTION = 10_000
"""Number of new objects that triggers a collection. Python's default is 700, but a message creates hundreds of objects
that reference counting frees."""

_YOUNG_COLLECTIONS = 2
"""Collections before one of the middle generation. With 10, as in Python, operations with large results made it take
25 ms, in which nothing else runs."""

_MIDDLE_COLLECTIONS = 50
"""Collections of the middle generation before one of all objects, so that these come as often as with 10 and 10."""


def tune_garbage_collection() -> None:
    """Exclude loaded objects from collection, and collect less often. Call it after the process has loaded its code."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BEFORE_COLLECTION, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)
