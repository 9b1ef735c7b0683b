"""Users in MongoDB: `users` {_id: user, n: name, av: avatar URL, bot: whether it is a bot}."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.ids import UserId
from store.mongo.client import Mongo
from store.mongo.collections import USERS
from store.users.user import User

_MAX_CACHED = 100_000


def _user_from(row: dict[str, Any]) -> User:
    return User(UserId(row["_id"]), row.get("n"), row.get("av"), bool(row.get("bot")))


class UserStore:
    """Reads and caches users' profiles.

    A cached profile is current until `invalidate` is called: the server that changes a user announces it to all.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._cached: dict[UserId, User] = {}
        self._invalidations = 0
        self._wanted: list[tuple[UserId, asyncio.Future[User | None]]] = []
        self._reading: asyncio.Task[None] | None = None

    def find_cached(self, user: UserId) -> User | None:
        """Return a user whose profile is cached."""
        return self._cached.get(user)

    async def find_many(self, users: Iterable[UserId]) -> dict[UserId, User]:
        """Return the users that exist. No round trip if all are cached."""
        wanted = set(users)
        found = {user_id: self._cached[user_id] for user_id in wanted if user_id in self._cached}
        missing = [user_id for user_id in wanted if user_id not in found]
        if missing:
            before = self._invalidations
            for row in await self._mongo.find(USERS, {"_id": {"$in": missing}}):
                user = found[UserId(row["_id"])] = _user_from(row)
                # If profiles changed during the read, this one may be out of date.
                if before == self._invalidations:
                    self._remember(user)
        return found

    async def find(self, user: UserId) -> User | None:
        """Return one user, or None."""
        return (await self.find_many((user,))).get(user)

    async def ensure(self, user: UserId, name: str | None, avatar_url: str | None) -> bool:
        """Create a user if needed, and fill a name and an avatar that are not set. Return whether anything changed.

        Costs a read if the user is not cached, which concurrent calls share, and a write only for a change.
        """
        known = self._cached.get(user) or await self._find_with_others(user)
        if known and (known.name or not name) and (known.avatar_url or not avatar_url):
            return False
        update: list[dict[str, Any]] = [
            {"$set": {"n": {"$ifNull": ["$n", name]}, "av": {"$ifNull": ["$av", avatar_url]}}},
            {"$set": {"bot": {"$ifNull": ["$bot", False]}}},
        ]
        before = await self._mongo.find_one_and_update(USERS, {"_id": user}, update, upsert=True)
        old = _user_from(before) if before else None
        new = User(
            user,
            (old.name if old else None) or name,
            (old.avatar_url if old else None) or avatar_url,
            old.is_bot if old else False,
        )
        self._remember(new)
        return old != new

    async def _find_with_others(self, user: UserId) -> User | None:
        """Return one user, or None. Calls that are made during a read share the next one."""
        found: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()
        self._wanted.append((user, found))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_wanted())
        return await found

    async def _read_wanted(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, []
                try:
                    users = await self.find_many(user for user, _ in wanted)
                except Exception as error:
                    for _, waiting in wanted:
                        if not waiting.done():
                            waiting.set_exception(error)
                else:
                    for user, waiting in wanted:
                        if not waiting.done():
                            waiting.set_result(users.get(user))
        finally:
            self._reading = None

    async def upsert_many(self, users: Sequence[User]) -> None:
        """Create the users, or replace their profiles: one round trip."""
        await self._mongo.bulk_write(
            USERS,
            [
                UpdateOne(
                    {"_id": user.id},
                    {"$set": {"n": user.name, "av": user.avatar_url, "bot": user.is_bot}},
                    upsert=True,
                )
                for user in users
            ],
        )
        for user in users:
            self._remember(user)

    def invalidate(self, users: Iterable[UserId] | None) -> None:
        """Drop cached profiles that another process changed. None: any may have changed."""
        self._invalidations += 1
        for user in list(self._cached) if users is None else users:
            self._cached.pop(user, None)

    def _remember(self, user: User) -> None:
        if len(self._cached) >= _MAX_CACHED:
            self._cached.pop(next(iter(self._cached)))
        self._cached[user.id] = user
