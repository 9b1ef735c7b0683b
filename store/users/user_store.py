"""Users: who exists, and how they are shown. `users` {_id, n name, av avatar, bot}."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.ids import UserId
from store.mongo.client import Mongo
from store.users.user import User

USERS = "users"
_DIRECTORY_SIZE = 100_000


def _user_from(row: dict[str, Any]) -> User:
    return User(UserId(row["_id"]), row.get("n"), row.get("av"), bool(row.get("bot")))


class UserStore:
    """Users in MongoDB, and in memory those this process has met.

    What is in memory is as new as the last `forget` for that user: whoever changes a user tells all processes.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._met: dict[UserId, User] = {}
        self._forgotten = 0

    def known(self, user: UserId) -> User | None:
        """A user this process has met."""
        return self._met.get(user)

    async def find_many(self, users: Iterable[UserId]) -> dict[UserId, User]:
        """Those who exist. No round trip for those this process has met."""
        wanted = set(users)
        found = {user_id: self._met[user_id] for user_id in wanted if user_id in self._met}
        missing = [user_id for user_id in wanted if user_id not in found]
        if missing:
            before = self._forgotten
            for row in await self._mongo.find(USERS, {"_id": {"$in": missing}}):
                user = found[UserId(row["_id"])] = _user_from(row)
                # What changed while it was read may have been read as it was before.
                if before == self._forgotten:
                    self._remember(user)
        return found

    async def find(self, user: UserId) -> User | None:
        """One user, or None."""
        return (await self.find_many((user,))).get(user)

    async def ensure(self, user: UserId, name: str | None, avatar_url: str | None) -> bool:
        """Makes the user exist and fills what is not set. Answers whether anything changed."""
        known = self._met.get(user)
        if known and (known.name or not name) and (known.avatar_url or not avatar_url):
            return False
        update: list[dict[str, Any]] = [
            {"$set": {"n": {"$ifNull": ["$n", name]}, "av": {"$ifNull": ["$av", avatar_url]}}},
            {"$set": {"bot": {"$ifNull": ["$bot", False]}}},
        ]
        before = await self._mongo.find_one_and_update(USERS, {"_id": user}, update, upsert=True)
        held = _user_from(before) if before else None
        now = User(
            user,
            (held.name if held else None) or name,
            (held.avatar_url if held else None) or avatar_url,
            held.is_bot if held else False,
        )
        self._remember(now)
        return held != now

    async def upsert_many(self, users: Sequence[User]) -> None:
        """Makes each user be as given."""
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

    def forget(self, users: Iterable[UserId] | None) -> None:
        """Another process changed these users (None: any may have changed)."""
        self._forgotten += 1
        for user in list(self._met) if users is None else users:
            self._met.pop(user, None)

    def _remember(self, user: User) -> None:
        if len(self._met) >= _DIRECTORY_SIZE:
            self._met.pop(next(iter(self._met)))
        self._met[user.id] = user
