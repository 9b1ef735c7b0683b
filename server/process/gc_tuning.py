"""How often Python looks for garbage."""

from __future__ import annotations

import gc

_AFTER = 10_000
"""Objects made and not freed until it looks; 700 unless told. A message makes hundreds that its end frees by itself."""


def tune_garbage_collection() -> None:
    """To be called once a process has loaded what it needs, which is not looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_AFTER, 10, 10)
