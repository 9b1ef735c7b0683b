"""Titles and texts of notifications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from resolvers.push.worker.phrases import phrases_for
from resolvers.push.worker.plain_text import BODY_BYTES, TITLE_BYTES, cut, plain, with_author
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, without_thread
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.messages.message import Message
from store.store import Store

MessagePlace = tuple[ConversationId, int]


@dataclass(frozen=True, slots=True)
class Heading:
    """Names that a notification shows.

    Attributes:
        author: The name of the message's author.
        place: The group or channel; None: a private conversation.
    """

    author: str
    place: str | None


@dataclass(frozen=True, slots=True)
class NotificationText:
    """The text of a notification."""

    title: str
    body: str


class NotificationTexts:
    """Reads names, and composes texts. shows_names: False: notifications contain neither names nor texts of users."""

    def __init__(self, store: Store, *, shows_names: bool = True) -> None:
        self._store = store
        self._shows_names = shows_names

    async def read_headings(self, messages: Iterable[Message]) -> Mapping[MessagePlace, Heading]:
        """Return the names for some messages. A round trip to each database for what is not known."""
        listed = list(messages)
        users = await self._store.users.find_many({message.sender for message in listed})
        parents = {without_thread(message.conversation) for message in listed}
        in_channels = [parent for parent in parents if kind_of(parent) is ConversationKind.CHANNEL]
        groups = [parent for parent in parents if kind_of(parent) is ConversationKind.GROUP]
        heads = await self._store.conversations.find_many(groups) if groups else {}
        places = {group: head.group.name for group, head in heads.items() if head.group is not None}
        nicknames: dict[tuple[WorkspaceId, UserId], str] = {}
        for workspace in {workspace_of_channel(channel) for channel in in_channels}:
            channels = [channel for channel in in_channels if workspace_of_channel(channel) == workspace]
            senders = {m.sender for m in listed if without_thread(m.conversation) in channels}
            places |= await self._name_channels(workspace, channels)
            nicknames |= await self._find_nicknames(workspace, senders)
        found = {}
        for message in listed:
            parent, user = without_thread(message.conversation), users.get(message.sender)
            name = user.display_name if user is not None else str(message.sender)
            if parent in in_channels:
                name = nicknames.get((workspace_of_channel(parent), message.sender), name)
            if message.author is not None and message.author[0]:
                name = message.author[0]
            found[message.conversation, message.seq] = Heading(name, places.get(parent))
        return found

    def compose(self, message: Message, heading: Heading, locale: str | None, *, shows_text: bool) -> NotificationText:
        """Return the text for a device. shows_text: the user wants to see what was written."""
        phrases = phrases_for(locale)
        if not self._shows_names:
            return NotificationText(phrases.new_message, "")
        author = plain(heading.author)
        title = author if heading.place is None else plain(heading.place) or author
        text = phrases.new_message
        if shows_text:
            text = plain(message.text or "")
            if not text and message.attachments:
                text = phrases.file if len(message.attachments) == 1 else phrases.files
            text = text or phrases.new_message
        if heading.place is not None:
            text = with_author(cut(author, TITLE_BYTES), text)
        return NotificationText(cut(title, TITLE_BYTES), cut(text, BODY_BYTES))

    async def _name_channels(
        self, workspace: WorkspaceId, channels: Iterable[ConversationId]
    ) -> dict[ConversationId, str]:
        policy, info = await self._store.policies.find(workspace), await self._store.workspaces.find(workspace)
        if policy is None or info is None:
            return {}
        known = (policy.channels.get(channel) for channel in channels)
        return {channel.id: f"#{channel.name} ({info.name})" for channel in known if channel is not None}

    async def _find_nicknames(
        self, workspace: WorkspaceId, users: Iterable[UserId]
    ) -> dict[tuple[WorkspaceId, UserId], str]:
        facts = await self._store.policies.find_members(workspace, set(users))
        return {(workspace, user): each.nickname for user, each in facts.items() if each.nickname}
