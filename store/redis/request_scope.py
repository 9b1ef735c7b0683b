"""Scope of one request: its user, and its key namespace in the Redis fallback.

In the fallback, a request begins with an empty cache (ADR 20).
"""

from __future__ import annotations

import itertools
from contextvars import ContextVar, Token

from store.base.ids import UserId
from store.base.request_user import request_actor, request_user

_numbers = itertools.count(1)


class _Namespace:
    """A key prefix, chosen when it is first needed: most requests never use the fallback."""

    __slots__ = ("_prefix",)

    def __init__(self) -> None:
        self._prefix = ""

    @property
    def prefix(self) -> str:
        if not self._prefix:
            self._prefix = f"{next(_numbers)}/"
        return self._prefix

    def renew(self) -> None:
        self._prefix = ""


_namespace: ContextVar[_Namespace | None] = ContextVar("fallback_namespace", default=None)


class RequestScope:
    """A block that is one request, with the tasks started in it.

    Cheap, because each request needs one: Redis may become unavailable while the request is processed.
    """

    __slots__ = ("_acted_by", "_actor_token", "_token", "_user", "_user_token")

    _token: Token[_Namespace | None]
    _user_token: Token[UserId | None]
    _actor_token: Token[UserId | None]

    def __init__(self, user: UserId | None = None, acted_by: UserId | None = None) -> None:
        """Create a scope.

        user: the user of the request; None for work of no user, or of several. acted_by: who acts for the user.
        """
        self._user = user
        self._acted_by = acted_by

    def __enter__(self) -> None:
        """Begin with an empty cache in case the fallback is used."""
        self._user_token = request_user.set(self._user)
        self._actor_token = request_actor.set(self._acted_by)
        self._token = _namespace.set(_Namespace())

    def __exit__(self, *_: object) -> None:
        """Return to the scope outside."""
        _namespace.reset(self._token)
        request_user.reset(self._user_token)
        request_actor.reset(self._actor_token)


def discard_request_cache() -> None:
    """Make the current request start again with an empty cache in the fallback, because it has changed MongoDB."""
    namespace = _namespace.get()
    if namespace is not None:
        namespace.renew()


def request_prefix() -> str:
    """Return the key prefix of the current request. Outside all requests each call returns a new one."""
    return (_namespace.get() or _Namespace()).prefix


def current_prefix() -> str:
    """Return the key prefix of the current request, or "" outside all requests."""
    namespace = _namespace.get()
    return namespace.prefix if namespace is not None else ""
