"""The summary of a message's reactions, which the message's own row carries (ADR 71)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from store.base.ids import UserId

MOST_NAMED = 5
"""Users of an emoji that the summary names: the first ones."""

MOST_KEYS = 256
"""Further users of all emoji of a message whose keys the summary has. Emoji with the most users have none beyond it."""

_KEY_BYTES = 9
KEY_LENGTH = 12
"""Characters of a key. Two users have the same one with a probability of 2 ** -72."""


@lru_cache(maxsize=10_000)
def user_key(user: UserId) -> str:
    """Return the key of a user: short, of one length, and the same in every summary."""
    return urlsafe_b64encode(blake2b(user.encode(), digest_size=_KEY_BYTES).digest()).decode()


def join_keys(users: Iterable[UserId]) -> str:
    """Return the keys of users, one after the other."""
    return "".join(map(user_key, users))


class ReactionSummary(NamedTuple):
    """The reactions to a message with one emoji.

    Attributes:
        emoji: The emoji.
        user_count: The number of users, exactly.
        users: The first MOST_NAMED of them, in order.
        first_at_ms: When the emoji was first used. It stays if the user who did so takes their reaction back.
        keys: The keys of all further users, in order; "" if there are none, or too many.
    """

    emoji: str
    user_count: int
    users: Sequence[UserId]
    first_at_ms: int
    keys: str = ""

    @property
    def knows_all(self) -> bool:
        """True if the summary knows all users, by name or by key."""
        return len(self.users) + len(self.keys) // KEY_LENGTH == self.user_count

    def has(self, user: UserId) -> bool | None:
        """Return whether a user is among those who reacted; None if the summary does not tell."""
        if user in self.users or (self.keys and self._find_key(user_key(user)) >= 0):
            return True
        return False if self.knows_all else None

    def with_user(self, user: UserId) -> ReactionSummary:
        """Return the summary with another user, the last one."""
        knows_all, count = self.knows_all, self.user_count + 1
        if knows_all and not self.keys and self.user_count < MOST_NAMED:
            return self._replace(user_count=count, users=(*self.users, user))
        return self._replace(user_count=count, keys=self.keys + user_key(user) if knows_all else "")

    def without_user(self, user: UserId) -> ReactionSummary:
        """Return the summary without a user who is among those who reacted."""
        users, keys = self.users, self.keys
        if user in users:
            users = tuple(other for other in users if other != user)
        elif keys:
            at = self._find_key(user_key(user))
            keys = keys[:at] + keys[at + KEY_LENGTH :]
        return self._replace(user_count=self.user_count - 1, users=users, keys=keys)

    def without_last(self, count: int) -> ReactionSummary:
        """Return the summary without the last users."""
        left = self.user_count - count
        keys = self.keys[: max(0, left - len(self.users)) * KEY_LENGTH] if self.knows_all else ""
        return self._replace(user_count=left, users=self.users[:left], keys=keys)

    def named(self, users: Sequence[UserId]) -> ReactionSummary:
        """Return the summary with other first users, who may have had keys."""
        named = {user_key(user) for user in users if user not in self.users}
        keys = "".join(key for key in _split(self.keys) if key not in named)
        return self._replace(users=tuple(users), keys=keys)

    def without_keys(self) -> ReactionSummary:
        """Return the summary without keys."""
        return self._replace(keys="")

    @property
    def lacks_names(self) -> bool:
        """True if one of the first users is not named."""
        return len(self.users) < min(self.user_count, MOST_NAMED)

    def to_stored(self) -> list[Any]:
        """Return the stored form: [emoji, count, first users, first use (ms), keys]; without keys if there are none."""
        stored = [self.emoji, self.user_count, list(self.users), self.first_at_ms]
        return [*stored, self.keys] if self.keys else stored

    def _find_key(self, key: str) -> int:
        """Return the index of a key; -1 if it is not there."""
        at = self.keys.find(key)
        while at % KEY_LENGTH and at >= 0:
            at = self.keys.find(key, at + 1)
        return at


def _split(keys: str) -> list[str]:
    return [keys[i : i + KEY_LENGTH] for i in range(0, len(keys), KEY_LENGTH)]


def summaries_from(stored: Iterable[Sequence[Any]]) -> tuple[ReactionSummary, ...]:
    """Return summaries by their stored form."""
    return tuple(ReactionSummary(emoji, count, tuple(users), *rest) for emoji, count, users, *rest in stored)
