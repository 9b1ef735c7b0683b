"""Runs use cases concurrently whose messages get their `seq` in a given order.

The reservation of a message decides its order, so only reservations wait for their turn. Checks before them and group
commits after them run concurrently, as for other requests.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from store.messages.message import ReservedMessage
from store.messages.outbox.outbox_store import OutboxStore
from store.messages.outbox.places import OutdatedRights, Refusal, SlowModeWait
from store.store import Store

T = TypeVar("T")

_turn: ContextVar[Turn] = ContextVar("turn")


class OutOfTurn(InvalidInput):
    """Raised when an earlier turn failed. It refuses the message like invalid input.

    Nothing is stored, and the idempotency key is released.
    """


class OrderedTurns:
    """Creates turns. `failure` is the exception of the first failed turn; later turns never come."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._last = asyncio.Event()
        self._last.set()

    def next(self) -> Turn:
        """Return the next turn."""
        turn = Turn(self, self._last)
        self._last = turn.over
        return turn


class Turn:
    """The turn of one use case, as an async context manager. It comes once the previous turn is `over`.

    Within the block, the use case has to use the result of `in_turn`. If it reserves nothing, its turn ends with the
    block.
    """

    def __init__(self, turns: OrderedTurns, previous: asyncio.Event) -> None:
        self.over = asyncio.Event()
        self._turns = turns
        self._previous = previous

    async def wait(self) -> None:
        """Wait for the turn. Raises OutOfTurn."""
        await self._previous.wait()
        if self._turns.failure is not None:
            raise OutOfTurn("an earlier message could not be sent")

    async def __aenter__(self) -> Turn:
        _turn.set(self)
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self._turns.failure = self._turns.failure or error
        elif not self.over.is_set():
            await self.wait()
        self.over.set()


def in_turn(app: Confab) -> Confab:
    """Return a copy of `app` for use cases that run within a turn."""
    outbox = _OutboxInTurn(app.store)
    places = app.store.channel_places.using(outbox)
    return replace(app, store=replace(app.store, outbox=outbox, channel_places=places))


class _OutboxInTurn(OutboxStore):
    def __init__(self, store: Store) -> None:
        super().__init__(store.cache, store.keys, store.clock)

    async def reserve(self, *args: Any, **options: Any) -> ReservedMessage | Refusal:
        turn = _turn.get()
        await turn.wait()
        return _end_turn(turn, await super().reserve(*args, **options))

    async def reserve_in_channel(
        self, *args: Any, **options: Any
    ) -> ReservedMessage | Refusal | OutdatedRights | SlowModeWait:
        turn = _turn.get()
        await turn.wait()
        return _end_turn(turn, await super().reserve_in_channel(*args, **options))

    async def reserve_change(self, *args: Any, **options: Any) -> ReservedMessage | Refusal:
        turn = _turn.get()
        await turn.wait()
        return _end_turn(turn, await super().reserve_change(*args, **options))


def _end_turn(turn: Turn, outcome: T) -> T:
    # A refusal is retried after the conversation was loaded, so the turn continues.
    if isinstance(outcome, ReservedMessage):
        turn.over.set()
    return outcome
