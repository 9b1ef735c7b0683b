"""A step of the server that a test pauses, to do something else in the meantime."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


class PausedStep:
    """Replaces an async method: a call sets `reached` and waits for `resume`. With `once`, only the first call does."""

    def __init__(self, target: Any, name: str, monkeypatch: pytest.MonkeyPatch, *, once: bool = False) -> None:
        self.reached, self.resume = asyncio.Event(), asyncio.Event()
        original = getattr(target, name)

        async def paused(*args: Any, **options: Any) -> Any:
            if not (once and self.reached.is_set()):
                self.reached.set()
                await self.resume.wait()
            return await original(*args, **options)

        monkeypatch.setattr(target, name, paused)
