"""Data of every kind that checks read, made through the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from store.base.ids import UserId
from tests.api.channels.calls import Made, make_workspace
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import SEND, Api
from tests.api.pins.calls import pin
from tests.api.reactions.calls import react
from tests.api.workspaces.calls import CREATE_INVITE
from tests.api.workspaces.role_calls import CREATE_ROLE, SET_ROLES
from tests.checking import find_differences


@dataclass(frozen=True)
class Data:
    """Ids of what a test may break. `alice` and `bob` talk with each other. All three are in the group."""

    api: Api
    alice: str
    bob: str
    carol: str
    private: str
    group: str
    made: Made
    channel: str
    role: str
    message: str
    """Is pinned, and has two reactions with one emoji, and a thread with three replies. One is recalled."""


@pytest.fixture(scope="module")
async def built(process: Api) -> Data:
    return await _build(process)


@pytest.fixture
async def data(built: Data) -> AsyncIterator[Data]:
    """Return data without differences, all of it cached. Check that a repair has left no differences."""
    await _read(built)
    yield built
    assert await find_differences(built.api.services.app.store) == []


async def _build(api: Api) -> Data:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    private = (await api.send(alice, bob))["message"]["conversationId"]
    await api.send(bob, private)
    group = await api.create_group(bob, alice, carol)
    message = (await api.send(bob, group, mentionAll=True))["message"]["id"]
    await pin(api, bob, message)
    for user in (alice, carol):
        await api.data(user, SEND, input={"threadOf": message, "content": "a reply"})
    reply = (await api.data(bob, SEND, input={"threadOf": message, "content": "no reply"}))["sendMessage"]["message"]
    await api.recall(bob, reply["id"])
    for user in (carol, alice):
        await react(api, user, message)
    made = await make_workspace(api)
    channel = (await made.create())["id"]
    await api.data(made.member, FOLLOW, id=channel)
    talk = (await api.send(made.owner, channel, mentions=[made.member]))["message"]["id"]
    await api.data(made.member, SEND, input={"threadOf": talk, "content": "a reply"})
    role = (await api.data(made.owner, CREATE_ROLE, id=made.id, input={"name": "guide"}))["createRole"]["id"]
    await api.data(made.owner, SET_ROLES, id=made.id, user=made.member, roles=[role])
    await api.data(made.owner, CREATE_INVITE, id=made.id)
    return Data(api, alice, bob, carol, private, group, made, channel, role, message)


async def _read(data: Data) -> None:
    """Read what is cached."""
    api = data.api
    for user in (data.alice, data.bob, data.made.member):
        await api.all_sessions(user)
        await api.services.app.store.sessions.read_all_totals(UserId(user))
    await api.group(data.bob, data.group)
    await api.history(data.bob, data.private)
    await api.history(data.bob, f"t_1_{data.group}")
    await api.wait_until_idle()
