"""The parent messages of threads in which users have replied, so that a further reply reads nothing to find its thread.

Only what never changes of a message is kept: its place, its sender and its kind. Whether a user may still reply is
judged at every reservation.
"""

from __future__ import annotations

from collections import OrderedDict

from store.base.ids import UserId
from store.messages.message import Message

_MAX_PARENTS = 20_000
"""Parent messages that a process keeps. Each takes about 500 bytes."""


class KnownParents:
    """Parent messages by user and the id that the user named. The least recently used one is dropped first.

    Each user has entries of their own. So nobody can tell from response times what others have replied to.
    """

    def __init__(self) -> None:
        self._parents: OrderedDict[tuple[UserId, str], Message] = OrderedDict()

    def find(self, user: UserId, named: str) -> Message | None:
        """Return the parent message for an id that the user has named before, without text; None if not known."""
        parent = self._parents.get((user, named))
        if parent is not None:
            self._parents.move_to_end((user, named))
        return parent

    def remember(self, user: UserId, named: str, parent: Message) -> None:
        """Keep the parent message, after the user has replied."""
        self._parents[user, named] = parent._replace(text="", metadata=None, mentions=(), mentioned_roles=())
        if len(self._parents) > _MAX_PARENTS:
            self._parents.popitem(last=False)
