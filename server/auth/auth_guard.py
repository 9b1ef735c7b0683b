"""Who may come in, and stay: tokens that are good and were not revoked, and the end of what lasts on one that is so no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from resolvers.base.errors import Unauthenticated, Unavailable
from resolvers.users.callers import Caller
from server.auth.authenticator import Authenticator
from store.base.tasks import end_tasks
from subscriptions.realtime.revocations import Revocations
from subscriptions.transport.close_codes import FORBIDDEN, Close

_log = structlog.get_logger(__name__)

JUDGED_EVERY = 150.0
"""Seconds between two looks whether the keys are still in force that the tokens of live connections were signed with."""

REVOKED = FORBIDDEN.because("Token revoked")
KEY_WITHDRAWN = FORBIDDEN.because("The token's key was withdrawn")

CloseWhere = Callable[[Callable[[object], bool], Close], None]
"""Ends, at once and like this, whatever lasts on behalf of those callers for whom the first argument answers True."""


class AuthGuard:
    """Judges tokens when somebody comes, and again for as long as they stay."""

    def __init__(self, authenticator: Authenticator, revocations: Revocations) -> None:
        self._authenticator = authenticator
        self._revocations = revocations
        self._endings: list[CloseWhere] = []
        self._task: asyncio.Task[None] | None = None
        revocations.on_change(self._end_revoked)

    async def authenticate(self, token: str) -> Caller:
        """The caller a token speaks for. Whoever keeps them past a wait, to let them stay, asks `check` again.

        Raises Unauthenticated with the reason, fit to be shown, and Unavailable while it can't be judged.
        """
        caller = await self._authenticator.authenticate(token)
        self.check(caller)
        return caller

    def check(self, caller: Caller) -> None:
        """Raises Unauthenticated for a caller who would be refused by now, Unavailable while that is not known."""
        if not self._revocations.is_known:
            raise Unavailable("Which tokens were revoked is not known yet, please try again.")
        if self._is_revoked(caller):
            raise Unauthenticated("The token was revoked.")
        if self._authenticator.is_withdrawn(caller):
            raise Unauthenticated("The token is signed with a key that is not known here.")

    def watch(self, close_where: CloseWhere) -> None:
        """Has `close_where` end what lasts on tokens that are not good any more, whenever there are such."""
        self._endings.append(close_where)

    async def open(self) -> None:
        """Begins to judge again, now and then."""
        self._task = asyncio.create_task(self._keep_judging())

    async def close(self) -> None:
        """Stops."""
        if self._task is not None:
            await end_tasks([self._task])

    async def judge_again(self) -> None:
        """Reads the keys anew, and ends what lasts on a token that would be refused by now."""
        await self._authenticator.refresh_keys()
        self._end(self._authenticator.is_withdrawn, KEY_WITHDRAWN)
        self._end_revoked()

    async def _keep_judging(self) -> None:
        while True:
            await asyncio.sleep(JUDGED_EVERY)
            try:
                await self.judge_again()
            except Exception:
                _log.exception("live connections could not be judged again")

    def _end_revoked(self) -> None:
        self._end(self._is_revoked, REVOKED)

    def _end(self, is_over: Callable[[Caller], bool], close: Close) -> None:
        for close_where in self._endings:
            close_where(lambda caller: isinstance(caller, Caller) and is_over(caller), close)

    def _is_revoked(self, caller: Caller) -> bool:
        return self._revocations.is_revoked(caller.user_id, caller.issued_at)
