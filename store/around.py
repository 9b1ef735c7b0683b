"""Doing without Redis: what is asked of it is asked of a spare one of this process, where each request begins with nothing (ADR 20).

To a request that is the everyday case of a cache that holds nothing of what it needs: it is loaded from MongoDB, which also decides
what is so where several write at once. Nothing is shared between requests, so nothing can be stale.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from store.ids import ConversationId

_numbers = itertools.count(1)


class _Scope:
    """What one request holds in the spare Redis."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.name = f"{next(_numbers)}/"


_scope: ContextVar[_Scope | None] = ContextVar("around_scope", default=None)


@contextmanager
def request_scope() -> Iterator[None]:
    """What is asked within the block, by tasks begun in it too, is one request's."""
    token = _scope.set(_Scope())
    try:
        yield
    finally:
        _scope.reset(token)


def forget_scope() -> None:
    """What this request holds is forgotten: it changed what MongoDB holds."""
    scope = _scope.get()
    if scope is not None:
        scope.renew()


class Turns:
    """Who writes to a conversation while Redis is away: one after the other in a process, or all would want the same place."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[ConversationId, asyncio.Lock] = WeakValueDictionary()

    def take(self, conversation: ConversationId) -> asyncio.Lock:
        """To be held while a message is given its place and made durable."""
        return self._locks.setdefault(conversation, asyncio.Lock())


def scope_name() -> str:
    """Whose what is held is: nobody's in particular while Redis is there."""
    scope = _scope.get()
    return scope.name if scope is not None else ""


def scoped(calls: Sequence[Any]) -> list[Any]:
    """The calls on keys of this request's own. Outside of all requests nothing is there."""
    name = (_scope.get() or _Scope()).name
    return [replace(call, keys=tuple(name + key for key in call.keys)) for call in calls]
