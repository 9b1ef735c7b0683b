"""Doing without Redis: what is asked of it is asked of a spare one of this process, where each request begins with nothing (ADR 20).

To a request that is the everyday case of a cache that holds nothing of what it needs: it is loaded from MongoDB, which also decides
what is so where several write at once. Nothing is shared between requests, so nothing can be stale.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextvars import ContextVar, Token
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from store.base.ids import ConversationId

_numbers = itertools.count(1)


class _Scope:
    """What one request holds in the spare Redis. Most never ask it for anything."""

    __slots__ = ("_name",)

    def __init__(self) -> None:
        self._name = ""

    @property
    def name(self) -> str:
        if not self._name:
            self._name = f"{next(_numbers)}/"
        return self._name

    def renew(self) -> None:
        self._name = ""


_scope: ContextVar[_Scope | None] = ContextVar("around_scope", default=None)


class FallbackScope:
    """What is asked within the block, by tasks begun in it too, is one request's. Cheap, for each has one: Redis may go while a
    request is under way."""

    __slots__ = ("_token",)

    _token: Token[_Scope | None]

    def __enter__(self) -> None:
        self._token = _scope.set(_Scope())

    def __exit__(self, *_: object) -> None:
        _scope.reset(self._token)


def forget_scope() -> None:
    """What this request holds is forgotten: it changed what MongoDB holds."""
    scope = _scope.get()
    if scope is not None:
        scope.renew()


class ConversationTurns:
    """Who writes to a conversation while Redis is away: one after the other in a process, or all would want the same place."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[ConversationId, asyncio.Lock] = WeakValueDictionary()

    def take(self, conversation: ConversationId) -> asyncio.Lock:
        """To be held while a message is given its place and made durable."""
        return self._locks.setdefault(conversation, asyncio.Lock())


def scope_name() -> str:
    """Whose what is held in the spare Redis is."""
    scope = _scope.get()
    return scope.name if scope is not None else ""


def scoped(calls: Sequence[Any]) -> list[Any]:
    """The calls on keys of this request's own. Outside of all requests nothing is there."""
    name = (_scope.get() or _Scope()).name
    return [replace(call, keys=tuple(name + key for key in call.keys)) for call in calls]
