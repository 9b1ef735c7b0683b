"""SYSTEM messages about a change that is stored get one place, in every kind of conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from store.base.ids import ConversationId, UserId
from store.messages.message import Message, MessageKind, ReservedMessage
from store.messages.system_events import SystemEvent, SystemEventKind
from subscriptions.delivery.announcements.system_messages import send_announcement
from tests.api.client import Api, private_id
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.calls import contents, thread_of

KINDS = ["private", "group", "channel", "thread in private", "thread in group", "thread in channel"]


class Chat(NamedTuple):
    """A conversation, a user who has changed something there, and another user."""

    conversation: ConversationId
    actor: UserId
    other: UserId


@pytest.fixture(params=KINDS)
async def chat(api: Api, request: pytest.FixtureRequest) -> Chat:
    """A conversation of each kind, in which the other user has written."""
    kind = request.param.rpartition(" ")[2]
    if kind == "channel":
        workspace = await create_sample_channels(api)
        actor, other, conversation = workspace.owner, workspace.member, str(workspace.general)
    else:
        actor, other, third = await api.create_users("alice", "bob", "carol")
        conversation = await api.create_group(actor, other, third) if kind == "group" else private_id(actor, other)
    sent = (await api.send(other, actor if kind == "private" else conversation, "1"))["message"]
    if request.param.startswith("thread"):
        conversation = thread_of(sent)
        await api.send(other, sent["id"], "1")
    await api.wait_until_idle()
    return Chat(ConversationId(conversation), UserId(actor), UserId(other))


def _new_announcement(api: Api, chat: Chat) -> Message:
    event = SystemEvent(SystemEventKind.MESSAGE_PINNED)
    id = api.services.app.store.ids.next()
    return Message(id, chat.conversation, chat.actor, MessageKind.SYSTEM, "changed", system_event=event)


class _Announcers:
    """Servers that announce the same change. All look for the message before one of them reserves a place for it."""

    def __init__(self, servers: Sequence[Api], monkeypatch: pytest.MonkeyPatch) -> None:
        self._apps = [server.services.app for server in servers]
        self._looking, self._have_looked = len(servers), asyncio.Event()
        self.places: list[int] = []
        """The seqs of the places that were reserved."""
        for app in {id(app): app for app in self._apps}.values():
            find, send = app.store.messages.find_in_conversation, app.delivery.send
            monkeypatch.setattr(app.store.messages, "find_in_conversation", partial(self._find, find))
            monkeypatch.setattr(app.delivery, "send", partial(self._send, send))

    async def announce(self, message: Message) -> None:
        await asyncio.gather(*(send_announcement(app.store, app.delivery, message) for app in self._apps))

    async def _find(self, find: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        found = await find(*args)
        self._looking -= 1
        if self._looking <= 0:
            self._have_looked.set()
        await self._have_looked.wait()
        return found

    async def _send(self, send: Callable[..., Awaitable[Any]], reserved: ReservedMessage, **options: Any) -> Any:
        self.places.append(reserved.message.seq)
        return await send(reserved, **options)


async def test_an_announcement_that_several_servers_send_gets_one_place(
    api: Api, other_api: Api, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    announcers = _Announcers((api, other_api) * 2, monkeypatch)
    await announcers.announce(_new_announcement(api, chat))
    for server in (api, other_api):
        await server.wait_until_idle()
    history = await api.history(chat.other, chat.conversation)
    assert [each["content"] for each in history] == ["1", "changed"]
    assert announcers.places == [history[1]["seq"]]


async def test_an_announcement_is_sent_to_a_conversation_that_is_not_cached(api: Api, chat: Chat) -> None:
    app = api.services.app
    await app.store.conversations.drop(chat.conversation)
    await send_announcement(app.store, app.delivery, _new_announcement(api, chat))
    assert await contents(api, chat.other, chat.conversation) == ["1", "changed"]


async def test_nothing_is_announced_in_a_conversation_that_is_gone(api: Api, chat: Chat) -> None:
    app, conversation = api.services.app, chat.conversation
    api.database["conversations"].delete_one({"_id": conversation})
    await app.store.conversations.drop(conversation)
    await send_announcement(app.store, app.delivery, _new_announcement(api, chat))
    assert await app.store.outbox.list_undelivered(conversation) == []
    assert api.database["messages"].count_documents({"c": conversation}) == 1
