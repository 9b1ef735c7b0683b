"""The newest states of messages and groups that a subscriber has seen."""

from __future__ import annotations

from collections import OrderedDict

from store.base.ids import ConversationId, MessageId
from store.conversations.conversation import Head
from store.messages.message import Message

_REMEMBERED_MESSAGES = 1_000


class NewestStates:
    """The newest states of revised messages and of groups that a subscriber has seen.

    A replay shows the state of messages and groups at the time of the read. A live event of an earlier change may
    arrive after it, and must not show an older state.
    """

    __slots__ = ("_group_versions", "_messages", "_reactions")

    def __init__(self) -> None:
        self._messages: OrderedDict[MessageId, Message] | None = None
        self._group_versions: dict[ConversationId, int] | None = None
        self._reactions: OrderedDict[MessageId, int] | None = None

    def advance_group(self, head: Head) -> bool:
        """Remember a group's version. Return False if the subscriber has seen a newer one.

        The memory grows with each group of the user that changes during the subscription.
        """
        versions = self._group_versions
        if versions is None:
            versions = self._group_versions = {}
        if head.version < versions.get(head.conversation, 0):
            return False
        versions[head.conversation] = head.version
        return True

    def advance_reactions(self, message: Message) -> bool:
        """Remember the version of a message's reactions. Return False if the subscriber has seen it, or a newer one."""
        versions = self._reactions
        if versions is None:
            versions = self._reactions = OrderedDict()
        if message.reactions_version <= versions.get(message.id, -1):
            return False
        versions[message.id] = message.reactions_version
        versions.move_to_end(message.id)
        if len(versions) > _REMEMBERED_MESSAGES:
            versions.popitem(last=False)
        return True

    def advance(self, message: Message) -> bool:
        """Remember a message's state. Return False if the subscriber has seen a newer one."""
        known = self._messages.get(message.id) if self._messages is not None else None
        if known is not None and known.is_newer_than(message):
            return False
        if message.is_recalled or message.edits or message.pin_changes or message.embeds.version:
            if self._messages is None:
                self._messages = OrderedDict()
            self._messages[message.id] = message
            self._messages.move_to_end(message.id)
            if len(self._messages) > _REMEMBERED_MESSAGES:
                self._messages.popitem(last=False)
        return True
