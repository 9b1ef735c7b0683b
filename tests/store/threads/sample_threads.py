"""A group with a message, and its thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from store.base.ids import ConversationId, MessageId, UserId, group_id, thread_id
from store.conversations.conversation import Head, Member
from store.conversations.group_change import ProposedChange
from store.conversations.group_info import GroupInfo
from store.messages.message import CommittedMessage, Message, MessageKind, ReservedMessage
from store.messages.outbox.places import Refusal
from store.store import Store
from store.threads.reply_places import ReplyPlace

ALICE, BOB, CAROL, DAVE = (UserId(name) for name in ("alice", "bob", "carol", "dave"))
NOW = 1_795_000_000_000


class SampleThread:
    """The thread under the first message of a group."""

    def __init__(self, store: Store, parent: Message) -> None:
        self.store = store
        self.parent = parent
        self.id = thread_id(parent.conversation, parent.seq)

    def message(self, sender: UserId, mentions: Sequence[UserId] = (), text: str = "me too") -> Message:
        """Return a reply without a place."""
        return Message(
            MessageId(self.store.ids.next()), self.id, sender, MessageKind.TEXT, text, mentions=tuple(mentions)
        )

    async def place(self, sender: UserId, mentions: Sequence[UserId] = ()) -> ReplyPlace:
        """Try to reserve a place for a reply."""
        return await self.store.reply_places.reserve(self.message(sender, mentions), self.parent)

    async def placed(self, sender: UserId, mentions: Sequence[UserId] = ()) -> ReservedMessage:
        """Reserve a place for a reply."""
        place = await self.place(sender, mentions)
        assert isinstance(place, ReservedMessage), place
        return place

    async def reply(self, sender: UserId, mentions: Sequence[UserId] = ()) -> ReservedMessage:
        """Store a reply."""
        reserved = await self.placed(sender, mentions)
        await self.commit(reserved)
        return reserved

    async def commit(self, reserved: ReservedMessage) -> None:
        """Make a reply or a change durable, and show it to readers."""
        store, at_ms = self.store, store_time(self.store)
        message = reserved.message
        reserved = replace(reserved, notified=tuple(user for user in message.mentions if user != message.sender))
        if reserved.change is not None:
            assert await store.groups.commit(reserved, at_ms) == at_ms
        else:
            durable, displaced = await store.commits.commit([reserved], [at_ms], messages_first=False)
            assert len(durable) == 1 and not displaced
        await store.cache.run(
            [store.commits.newest_message_call(CommittedMessage(reserved, at_ms)), store.outbox.clear_call(reserved)]
        )

    async def change(self, **change: object) -> ReservedMessage:
        """Change followers or the lock."""
        snapshot = await self.store.conversations.find_group_snapshot(self.id, [ALICE])
        assert snapshot is not None
        message = Message(MessageId(self.store.ids.next()), self.id, ALICE, MessageKind.SYSTEM, "")
        proposed = ProposedChange(**change)  # type: ignore[arg-type]
        reserved = await self.store.outbox.reserve_change(message, snapshot.version, proposed, announced=False)
        assert not isinstance(reserved, Refusal), reserved
        await self.commit(reserved)
        return reserved

    async def head(self) -> Head:
        """Return the head as readers see it."""
        head = await self.store.conversations.find(self.id)
        assert head is not None and head.thread is not None
        return head

    async def followers(self) -> list[UserId]:
        """Return the present followers."""
        return [member.user for member in await self.store.conversations.list_members(self.id) if member.is_current]


def store_time(store: Store) -> int:
    """Return the time now (ms)."""
    return store.clock.now_ms()


async def open_group(store: Store, members: Sequence[UserId] = (ALICE, BOB, CAROL)) -> ConversationId:
    """Create a group, owned by the first member."""
    conversation = group_id(store.ids.next())
    info = GroupInfo("hikers", None, members[0], full_history=False, created_at_ms=NOW)
    rows = [Member(user, "OWNER" if user == members[0] else "MEMBER", ((1, None),), NOW) for user in members]
    assert await store.groups.insert(conversation, info, rows, None)
    await store.conversations.load((conversation,), with_members=True)
    return conversation


async def begin_thread(store: Store, members: Sequence[UserId] = (ALICE, BOB, CAROL)) -> SampleThread:
    """Send a message to a new group, and return its thread, which has no replies."""
    group = await open_group(store, members)
    message = Message(MessageId(store.ids.next()), group, members[0], MessageKind.TEXT, "where do we go?")
    reserved = await store.outbox.reserve(message)
    assert isinstance(reserved, ReservedMessage)
    await store.commits.commit([reserved], [NOW], messages_first=False)
    committed = CommittedMessage(reserved, NOW)
    await store.cache.run([store.commits.newest_message_call(committed), store.outbox.clear_call(reserved)])
    return SampleThread(store, reserved.message)
