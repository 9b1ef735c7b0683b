"""Messages that tests hold back between their reservation and their commit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.client import TIMEOUT_SECONDS, Api


class HeldCommits:
    """Holds back messages of a server after their reservation, before they are stored.

    A message that gets a second place is not held again.
    """

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        delivery = api.services.app.delivery
        self._in_flight = delivery.in_flight
        self._push = delivery.commit_stage.queue.push
        self._seen = set[int]()
        self.held: list[Any] = []
        self.holds = False
        monkeypatch.setattr(delivery.commit_stage.queue, "push", self._hold)

    def _hold(self, messages: Any) -> None:
        ids = {message.reserved.message.id for message in messages}
        if self.holds and not ids <= self._seen:
            self._seen |= ids
            self.held.append(messages)
        else:
            self._push(messages)

    def hold(self) -> None:
        self.holds = True

    async def wait_for(self, count: int) -> None:
        """Wait until this many messages are held."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(self.held) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def deliver(self, number: int) -> None:
        """Let one of the held messages be stored, and wait until it is delivered or refused."""
        self._push(self.held.pop(number))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(self._in_flight) > len(self.held):  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    def release(self) -> None:
        """Let all be stored, and hold no more."""
        self.holds = False
        while self.held:
            self._push(self.held.pop(0))
