"""The end of a load, which may be set while it runs."""

from __future__ import annotations

import asyncio
import math
import random
import time


class LoadEnd:
    """A time of the monotonic clock. All actors of a run share it."""

    def __init__(self, seconds: float = math.inf) -> None:
        """Let the load end after some seconds; without them it goes on until `end`."""
        self._at = time.monotonic() + seconds

    def end(self) -> None:
        """Let the load end now."""
        self._at = min(self._at, time.monotonic())

    @property
    def remaining(self) -> float:
        """The seconds that are left."""
        return self._at - time.monotonic()

    async def rest(self, rng: random.Random, pause: float) -> bool:
        """Pause for that many seconds on average. Return whether there is time left."""
        await asyncio.sleep(max(0.0, min(rng.expovariate(1 / pause), self.remaining)))
        return self.remaining > 0
