"""The user of the operation that the current task belongs to, and who acts for that user (ADR 42, ADR 52).

`RequestScope` sets it where an operation begins. Tasks that are started in the operation inherit it.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from store.base.ids import UserId

request_user: ContextVar[UserId | None] = ContextVar("request_user", default=None)
"""The user whose operation runs; None for work of no user, or of several."""

request_actor: ContextVar[UserId | None] = ContextVar("request_actor", default=None)
"""The service or admin who acts for the user of the operation; None if users act for themselves (ADR 42)."""


class SharedWork:
    """Context manager for work that several users wait for. Its reads do not wait in the queue of one user."""

    __slots__ = ("_token",)

    _token: Token[UserId | None]

    def __enter__(self) -> None:
        """Begin work of no single user."""
        self._token = request_user.set(None)

    def __exit__(self, *_: object) -> None:
        """Restore the previous user."""
        request_user.reset(self._token)
