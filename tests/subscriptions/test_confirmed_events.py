"""Events that are confirmed when it is their turn."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

from resolvers.live.live_stream import LiveEvent, LiveStream

MENTION: Any = LiveEvent("mention", None)


class _View:
    """Gives each confirmation its answer."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)

    def still_shows(self, _payload: object) -> bool:
        return True

    def find_confirmation(self, _payload: object, _position: object) -> Any:
        async def confirm() -> bool:
            await asyncio.sleep(0)
            return self._answers.pop(0)

        return confirm


async def take_late(view: _View, rounds: int) -> LiveEvent | None:
    """Return what a reader takes that always comes 60 ms after it was called."""
    catch_ups: Any = SimpleNamespace(end_part=lambda _user: None)
    hub: Any = None
    viewer: Any = view
    user: Any = "alice"
    stream = LiveStream(user, hub, (), viewer, catch_ups, first=[MENTION])
    ready = asyncio.Event()
    stream.on_ready(ready.set)
    for _ in range(rounds):
        event = stream.take()
        if event is not None:
            return event
        await ready.wait()
        ready.clear()
        time.sleep(0.06)  # noqa: ASYNC251  The event loop is slow.
    return stream.take()


async def test_an_event_reaches_a_reader_that_is_always_late() -> None:
    assert await take_late(_View(True, True), rounds=2) is MENTION


async def test_an_event_is_judged_again_for_a_reader_that_is_late() -> None:
    assert await take_late(_View(True, False), rounds=2) is None
