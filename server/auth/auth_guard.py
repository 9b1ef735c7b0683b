"""Authenticates callers, and closes their connections when their token stops being valid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from resolvers.base.errors import Banned, Unauthenticated, Unavailable
from resolvers.base.times import iso_text
from resolvers.users.callers import Caller
from server.auth.authenticator import Authenticator
from store.base.ids import UserId
from store.base.tasks import end_tasks
from subscriptions.realtime.bans.banned_users import BannedUsers
from subscriptions.realtime.revocations import Revocations
from subscriptions.transport.close_codes import FORBIDDEN, Close

_log = structlog.get_logger(__name__)

RECHECK_SECONDS = 150.0
"""Interval at which the keys that signed the tokens of open connections are checked again."""

REVOKED = FORBIDDEN.because("Token revoked")
BANNED = FORBIDDEN.because("Banned")
KEY_WITHDRAWN = FORBIDDEN.because("The token's key was withdrawn")

WaitFor = Callable[[UserId], Awaitable[None]]
"""Waits until the operations of a user in this process have ended."""

CloseWhere = Callable[[Callable[[object], bool], Close], None]
"""Closes at once every connection of the callers for which the first argument returns True."""


class AuthGuard:
    """Checks tokens when clients connect, and again while they stay connected."""

    def __init__(self, authenticator: Authenticator, revocations: Revocations, bans: BannedUsers) -> None:
        self._authenticator = authenticator
        self._bans = bans
        self._waiters: list[WaitFor] = []
        self._revocations = revocations
        self._closers: list[CloseWhere] = []
        self._recheck_task: asyncio.Task[None] | None = None
        self.refused = 0
        """Tokens that were refused so far."""
        revocations.on_change(self._close_revoked)
        bans.on_ban(self._end_banned)

    async def authenticate(self, token: str) -> Caller:
        """Return the caller of a token.

        Code that waits before it admits the caller calls `check` again afterwards. Raises Unauthenticated and Banned
        with a reason that may be sent to the client, and Unavailable while the token cannot be checked.
        """
        try:
            caller = await self._authenticator.authenticate(token)
            self.check(caller)
        except (Unauthenticated, Banned):
            self.refused += 1
            raise
        return caller

    def check(self, caller: Caller) -> None:
        """Raise Unauthenticated if the caller's token is no longer valid, and Unavailable while that is unknown.

        Raises Banned if the caller, or the user that they act for, is banned from the deployment.
        """
        if not (self._revocations.is_known and self._bans.is_known):
            raise Unavailable("The list of revoked tokens is not loaded yet, please try again.")
        for user in {caller.token_user, caller.user_id}:
            ban = self._bans.find(user)
            if ban is not None:
                end = f" until {iso_text(ban.until_ms)}" if ban.until_ms is not None else ""
                raise Banned(f"This user is banned from this deployment{end}.")
        if self._is_revoked(caller):
            raise Unauthenticated("The token was revoked.")
        if self._authenticator.is_withdrawn(caller):
            raise Unauthenticated("The token is signed with a key that this server does not know.")

    def close_with(self, close_where: CloseWhere) -> None:
        """Register a function that closes connections whose token is no longer valid."""
        self._closers.append(close_where)

    def wait_with(self, wait: WaitFor) -> None:
        """Register a function that waits for running operations of a banned user."""
        self._waiters.append(wait)

    async def start(self) -> None:
        """Start to check the keys of open connections periodically."""
        self._recheck_task = asyncio.create_task(self._recheck_forever())

    async def stop(self) -> None:
        """Stop the periodic check."""
        if self._recheck_task is not None:
            await end_tasks([self._recheck_task])

    async def recheck(self) -> None:
        """Fetch the keys again, and close the connections whose token is no longer valid."""
        await self._authenticator.refresh_keys()
        self._close(self._authenticator.is_withdrawn, KEY_WITHDRAWN)
        self._close_revoked()

    async def _recheck_forever(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                await self.recheck()
            except Exception:
                _log.exception("token_recheck_failed")

    async def _end_banned(self, user: UserId) -> None:
        """Close the connections of a banned user, and wait until the user's operations have ended."""
        self._close(lambda caller: user in (caller.user_id, caller.token_user), BANNED)
        for wait in self._waiters:
            await wait(user)

    def _close_revoked(self) -> None:
        self._close(self._is_revoked, REVOKED)

    def _close(self, is_invalid: Callable[[Caller], bool], close: Close) -> None:
        for close_where in self._closers:
            close_where(lambda caller: isinstance(caller, Caller) and is_invalid(caller), close)

    def _is_revoked(self, caller: Caller) -> bool:
        if caller.acted_by is not None and self._revocations.is_being_erased(caller.user_id):
            return True
        return self._revocations.is_revoked(caller.token_user, caller.issued_at)
