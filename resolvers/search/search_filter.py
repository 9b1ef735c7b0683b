"""Filters of searches: checks of their values, and of messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from resolvers.base.checks import check_encodable
from resolvers.base.errors import InvalidInput
from resolvers.base.times import check_time
from resolvers.conversations.access import Access
from store.base.ids import ConversationKind, UserId, kind_of
from store.messages.message import Message
from store.search.filter_terms import ContentKind, contains

MAX_CONVERSATIONS = 100
MAX_SENDERS = 100


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Restrictions of a search. None: no restriction. All of them apply.

    Attributes:
        conversations: Ids of conversations; empty: nothing is found.
        workspace: Only channels of this workspace, and threads there.
        senders: Ids of users; empty: nothing is found.
        mentions_me: True: messages that mention the viewer; False: all others.
        after_ms: Messages that were sent later than this.
        before_ms: Messages that were sent earlier than this.
        has: Messages that contain each of these.
        pinned: True: messages that are pinned now; False: all others.
        in_threads: True: messages in threads; False: all others.
    """

    conversations: tuple[str, ...] | None = None
    workspace: str | None = None
    senders: tuple[str, ...] | None = None
    mentions_me: bool | None = None
    after_ms: int | None = None
    before_ms: int | None = None
    has: tuple[ContentKind, ...] = ()
    pinned: bool | None = None
    in_threads: bool | None = None

    def checked(self) -> SearchFilter:
        """Return the same filter with each list sorted and without duplicates. Raises InvalidInput."""
        if self.workspace is not None:
            check_encodable(self.workspace, "workspaceId")
        check_time(self.after_ms, "after")
        check_time(self.before_ms, "before")
        if self.after_ms is not None and self.before_ms is not None and self.after_ms >= self.before_ms:
            raise InvalidInput("before must be later than after", field="before")
        return replace(
            self,
            conversations=_check_ids(self.conversations, MAX_CONVERSATIONS, "conversationIds"),
            senders=_check_ids(self.senders, MAX_SENDERS, "senderIds"),
            has=tuple(sorted(set(self.has))),
        )

    def accepts_conversation(self, conversation: str) -> bool:
        """Return whether messages in a conversation may pass the filter."""
        return self.in_threads is None or self.in_threads is (kind_of(conversation) is ConversationKind.THREAD)

    def accepts(self, message: Message, viewer: UserId, access: Access) -> bool:
        """Return whether a message passes the filter, except for its conversation and workspace.

        access: The viewer's access to the message's conversation.
        """
        if self.senders is not None and message.sender not in self.senders:
            return False
        sent_ms = message.created_at_ms
        if self.after_ms is not None and sent_ms <= self.after_ms:
            return False
        if self.before_ms is not None and sent_ms >= self.before_ms:
            return False
        if self.pinned is not None and message.is_pinned is not self.pinned:
            return False
        if self.mentions_me is not None and mentions(message, viewer, access) is not self.mentions_me:
            return False
        return all(contains(message, kind) for kind in self.has)


def mentions(message: Message, viewer: UserId, access: Access) -> bool:
    """Return whether a message of somebody else mentions the viewer: by name, by a role, or with everybody."""
    if message.sender == viewer:
        return False
    if message.shows_mention_of_all or viewer in message.shown_mentions:
        return True
    return access.rights is not None and not access.rights.facts.roles.isdisjoint(message.shown_roles)


def _check_ids(ids: Iterable[str] | None, most: int, field: str) -> tuple[str, ...] | None:
    if ids is None:
        return None
    listed = tuple(ids)
    if len(listed) > most:
        raise InvalidInput(f"give at most {most} {field}", field=field)
    for each in listed:
        check_encodable(each, field)
    return tuple(sorted(set(listed)))
