"""Tuning of Python's garbage collector and of its threads."""

from __future__ import annotations

import gc
import sys

_YOUNG_ALLOCATIONS = 10_000
"""Number of new objects that triggers a collection. Python's default is 700, but a message creates hundreds of objects
that reference counting frees."""

_YOUNG_COLLECTIONS = 2
"""Collections before one of the middle generation. With 10, as in Python, it takes up to 65 ms, in which nothing else
runs, while a user creates many objects that stay."""

_MIDDLE_COLLECTIONS = 40
"""Collections of the middle generation before one of all objects, so that these come as often as with 10 and 10."""

_SWITCH_SECONDS = 0.001
"""The longest time for which the event loop waits for another thread of the process. Python's default is 5 ms."""


def tune_interpreter() -> None:
    """Make collections short, and thread switches frequent. Call it after the process has loaded its code."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_ALLOCATIONS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_SECONDS)
