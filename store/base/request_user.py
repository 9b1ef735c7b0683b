"""The user of the current task: reads of MongoDB queue by this user (ADR 52).

`RequestScope` sets it where an operation begins. Tasks that are started in the operation inherit it.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from store.base.ids import UserId

request_user: ContextVar[UserId | None] = ContextVar("request_user", default=None)
"""None: work of no user, or of several."""


class SharedWork:
    """A block whose result operations of other users wait for too, so its reads never queue as those of one user."""

    __slots__ = ("_token",)

    _token: Token[UserId | None]

    def __enter__(self) -> None:
        """Begin to work for no user."""
        self._token = request_user.set(None)

    def __exit__(self, *_: object) -> None:
        """Return to the user outside."""
        request_user.reset(self._token)
