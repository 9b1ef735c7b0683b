"""Confab's command line with a clock that is CHAOS_CLOCK_SECONDS ahead of the machine's; negative for behind."""

from __future__ import annotations

import os
import time

_OFFSET_NS = int(float(os.environ.get("CHAOS_CLOCK_SECONDS", "0")) * 1e9)


def _shift_clock() -> None:
    """Replace the functions of `time` before another module can import them."""
    true_ns = time.time_ns

    def shifted_ns() -> int:
        return true_ns() + _OFFSET_NS

    def shifted() -> float:
        return shifted_ns() / 1e9

    time.time_ns, time.time = shifted_ns, shifted


if __name__ == "__main__":
    _shift_clock()
    from server.cli.commands import main

    main()
