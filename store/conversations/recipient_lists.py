"""A cache of group members in this process, which finds a message's recipients without a round trip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import takewhile

from store.base.ids import ConversationId, UserId
from store.conversations.conversation import Member

_MAX_GROUPS = 2_000


@dataclass(frozen=True, slots=True)
class RecipientList:
    """The members of a group under one version of its membership.

    `current`: first seq and user. `former`: first seq, last seq and user of ended intervals, latest end first.
    """

    version: str
    current: tuple[tuple[int, UserId], ...]
    former: tuple[tuple[int, int, UserId], ...]

    def members_at(self, seq: int) -> list[UserId]:
        """Return the users who were members when a message took a seq."""
        users = [user for first, user in self.current if first <= seq]
        ended = takewhile(lambda interval: interval[1] >= seq, self.former)
        return users + [user for first, _, user in ended if first <= seq]

    def present_at(self, seqs: Collection[int]) -> list[UserId]:
        """Return the current members who were members when each of some messages took its seq."""
        earliest = min(seqs)
        if all(first <= earliest for first, _ in self.current):
            return self.current_members()
        earlier = defaultdict[UserId, list[tuple[int, int]]](list)
        for first, last, user in self.former:
            earlier[user].append((first, last))
        return [
            user
            for first, user in self.current
            if all(first <= seq or any(a <= seq <= b for a, b in earlier.get(user, ())) for seq in seqs)
        ]

    def current_members(self) -> list[UserId]:
        """Return the users who are members under this version."""
        return [user for _, user in self.current]


def recipient_list(version: str, members: Iterable[Member]) -> RecipientList:
    """Return the recipient list of a membership."""
    intervals = [(first, last, m.user) for m in members for first, last in m.intervals]
    current = tuple((first, user) for first, last, user in intervals if last is None)
    former = [(first, last, user) for first, last, user in intervals if last is not None]
    return RecipientList(version, current, tuple(sorted(former, key=lambda interval: -interval[1])))


class RecipientLists:
    """The newest recipient list of each group, bounded in number."""

    def __init__(self) -> None:
        self._lists: dict[ConversationId, RecipientList] = {}

    def find(self, conversation: ConversationId, version: str) -> RecipientList | None:
        """Return the list of a group if it is of that version."""
        known = self._lists.get(conversation)
        return known if known is not None and known.version == version else None

    def remember(self, conversation: ConversationId, known: RecipientList) -> None:
        """Keep a list. If there are too many, the one that was added first is dropped."""
        if len(self._lists) >= _MAX_GROUPS:
            self._lists.pop(next(iter(self._lists)))
        self._lists[conversation] = known
