"""Many use cases at once whose messages get their places in a given order.

What decides the order in a conversation is when a message is reserved, so only that waits for its turn; keys are checked
before and writes shared after it as with any other concurrent requests.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from store.messages.message import ReservedMessage
from store.messages.outbox_store import OutboxStore, Refusal
from store.store import Store

_turn: ContextVar[Turn] = ContextVar("turn")


class OutOfTurn(InvalidInput):
    """A turn before this one failed, so this one never comes. Refuses the message, as any other fault of its input would:
    nothing is stored, and its key is given back."""


class OrderedTurns:
    """Hands out turns. `failure` is what ended the first that failed: none comes after it."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._last = asyncio.Event()
        self._last.set()

    def next(self) -> Turn:
        """The turn after the one that was handed out last."""
        turn = Turn(self, self._last)
        self._last = turn.over
        return turn


class Turn:
    """A use case's turn, for the time of an async `with` block: it comes once the one before is `over`.

    In the block the use case has to work with what `in_turn` gives. If it needs no place, the turn passes with the block.
    """

    def __init__(self, turns: OrderedTurns, before: asyncio.Event) -> None:
        self.over = asyncio.Event()
        self._turns = turns
        self._before = before

    async def come(self) -> None:
        """Waits for the turn. Raises OutOfTurn."""
        await self._before.wait()
        if self._turns.failure is not None:
            raise OutOfTurn("an earlier message could not be sent")

    async def __aenter__(self) -> Turn:
        _turn.set(self)
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self._turns.failure = self._turns.failure or error
        elif not self.over.is_set():
            await self.come()
        self.over.set()


def in_turn(app: Confab) -> Confab:
    """The same parts, for use cases that are called within a turn."""
    return replace(app, store=replace(app.store, outbox=_OutboxInTurn(app.store)))


class _OutboxInTurn(OutboxStore):
    def __init__(self, store: Store) -> None:
        super().__init__(store.cache, store.keys)

    async def reserve(self, *args: Any, **options: Any) -> ReservedMessage | Refusal:
        turn = _turn.get()
        await turn.come()
        return _taken(turn, await super().reserve(*args, **options))

    async def reserve_change(self, *args: Any, **options: Any) -> ReservedMessage | Refusal:
        turn = _turn.get()
        await turn.come()
        return _taken(turn, await super().reserve_change(*args, **options))


def _taken(turn: Turn, place: ReservedMessage | Refusal) -> ReservedMessage | Refusal:
    # A conversation that has to be loaded first is asked for again: the turn is not over by that.
    if isinstance(place, ReservedMessage):
        turn.over.set()
    return place
