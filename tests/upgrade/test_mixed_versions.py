"""Servers of two versions read and change what the other version has cached and changed."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from server.embedded import ports
from tests.api.client import wait_until
from tests.api.voice.calls import JOIN, STATES
from tests.chaos.faults.databases import DatabaseUrls
from tests.chaos.load.documents import DOCUMENTS
from tests.processes import ROOT, ServerProcess, start_server, token, until_ready
from tests.protocol.peer import open_admitted_socket

Json = dict[str, Any]

EXTRA = {
    "createVoice": "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }",
    "joinVoice": JOIN,
    "voiceStates": STATES,
    "presences": "query ($ids: [ID!]!) { presences(userIds: $ids) { user { id } status customStatus { text } } }",
    "setPresence": "mutation ($s: PresenceSetting!) { setPresence(status: $s) { setting } }",
    "setStatus": "mutation ($t: String) { setCustomStatus(text: $t) { setting } }",
}


@dataclass
class Versions:
    """Two servers on one deployment: `old` is the last released version, `new` this one."""

    old: ServerProcess
    new: ServerProcess
    redis: Redis
    prefix: str
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def ask(self, server: ServerProcess, user: str, operation: str, **variables: Any) -> Any:
        """Return the value of the operation's one field."""
        async with server.client(user, timeout=60) as client:
            query = (DOCUMENTS | EXTRA)[operation]
            answer = (await client.post("/graphql", json={"query": query, "variables": variables})).json()
        assert "errors" not in answer, (operation, server.port, answer)
        (value,) = answer["data"].values()
        return value

    async def users(self, count: int = 2) -> list[str]:
        number = next(self.numbers)
        names = [f"u{number}x{index}" for index in range(count)]
        for name in names:
            await self.ask(self.old, name, "me")
        return names

    async def forget(self) -> None:
        """Drop all cached states and heads, as an eviction does. Places of messages in outboxes stay."""
        for kind in ("meta", "head", "members", "presence", "notifications", "blocks"):
            names = [name async for name in self.redis.scan_iter(f"{self.prefix}*:{kind}*")]
            if names:
                await self.redis.delete(*names)


@pytest.fixture(scope="module")
async def versions(
    mongo_url: str, redis_url: str, released: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Versions]:
    database, folder = f"upgrade_{secrets.token_hex(4)}", tmp_path_factory.mktemp("servers")
    addresses = DatabaseUrls(mongo_url, redis_url)
    servers = list[ServerProcess]()
    async with AsyncExitStack() as stack:
        for name, sources in (("old", released), ("new", ROOT)):
            port = ports.pick_free(*(server.port for server in servers))
            environment = {"PYTHONPATH": str(sources), "PYTHONSAFEPATH": "1"}
            server = start_server(addresses, port, folder / f"{name}.log", database, environment=environment)
            stack.push_async_callback(asyncio.to_thread, server.stop)
            servers.append(server)
        for server in servers:
            await until_ready(server, 150)
        redis = Redis.from_url(redis_url)
        stack.push_async_callback(redis.aclose)
        yield Versions(*servers, redis, database)


@dataclass(frozen=True)
class Feature:
    """A change of one feature.

    Attributes:
        prepare: Creates the data with the old server. Returns variables for the other two functions.
        change: Makes the change on a server.
        read: Reads the data on a server.
        expected: The value that `read` returns after the change.
    """

    prepare: Callable[[Versions], Awaitable[Json]]
    change: Callable[[Versions, ServerProcess, Json], Awaitable[object]]
    read: Callable[[Versions, ServerProcess, Json], Awaitable[Any]]
    expected: Any


async def _private(versions: Versions) -> Json:
    alice, bob = await versions.users()
    sent = await versions.ask(versions.old, alice, "sendMessage", input={"toUserId": bob, "content": "one"})
    return {"alice": alice, "bob": bob, "id": sent["message"]["conversationId"], "message": sent["message"]["id"]}


async def _group(versions: Versions) -> Json:
    alice, *others = await versions.users(3)
    group = (await versions.ask(versions.old, alice, "createGroup", input={"name": "g", "memberIds": others}))["id"]
    await versions.ask(versions.old, alice, "sendMessage", input={"conversationId": group, "content": "one"})
    return {"alice": alice, "bob": others[0], "id": group}


async def _channel(versions: Versions) -> Json:
    alice, bob = await versions.users()
    workspace = (await versions.ask(versions.old, alice, "createWorkspace", input={"name": "w", "isOpen": True}))["id"]
    await versions.ask(versions.new, bob, "joinWorkspace", id=workspace)
    given = {"workspaceId": workspace, "name": "talk", "kind": "PUBLIC"}
    channel = (await versions.ask(versions.old, alice, "createChannel", input=given))["id"]
    await versions.ask(versions.new, bob, "followChannel", id=channel, follow=True)
    return {"alice": alice, "bob": bob, "id": channel, "workspace": workspace}


async def _session(versions: Versions, server: ServerProcess, given: Json) -> Json:
    found: Json = await versions.ask(server, given["bob"], "session", id=given["id"])
    return found


def _of_session(name: str) -> Callable[[Versions, ServerProcess, Json], Awaitable[Any]]:
    async def read(versions: Versions, server: ServerProcess, given: Json) -> Any:
        return (await _session(versions, server, given))[name]

    return read


def _by_bob(operation: str, **variables: Any) -> Callable[[Versions, ServerProcess, Json], Awaitable[Any]]:
    async def change(versions: Versions, server: ServerProcess, given: Json) -> Any:
        return await versions.ask(server, given["bob"], operation, id=given["id"], **variables)

    return change


async def _send(versions: Versions, server: ServerProcess, given: Json) -> Any:
    return await versions.ask(
        server, given["alice"], "sendMessage", input={"conversationId": given["id"], "content": "two"}
    )


async def _list(versions: Versions, server: ServerProcess, given: Json) -> Any:
    page = await versions.ask(server, given["bob"], "sessions", first=10)
    return [(edge["node"]["lastMessage"]["content"], edge["node"]["unreadCount"]) for edge in page["edges"]]


async def _edit(versions: Versions, server: ServerProcess, given: Json) -> Any:
    return await versions.ask(server, given["alice"], "editMessage", id=given["message"], text="edited")


async def _last(versions: Versions, server: ServerProcess, given: Json) -> Any:
    return (await _session(versions, server, given))["lastMessage"]["content"]


async def _channel_counts(versions: Versions, server: ServerProcess, given: Json) -> Any:
    channel = await versions.ask(server, given["bob"], "channel", id=given["id"])
    return channel["messageCount"], channel["session"]["unreadCount"], channel["viewerFollows"]


async def _rename(versions: Versions, server: ServerProcess, given: Json) -> Any:
    return await versions.ask(server, given["alice"], "updateChannel", id=given["id"], input={"topic": "rocks"})


async def _topic(versions: Versions, server: ServerProcess, given: Json) -> Any:
    return (await versions.ask(server, given["bob"], "channel", id=given["id"]))["topic"]


async def _status(versions: Versions, server: ServerProcess, given: Json) -> Any:
    await versions.ask(server, given["alice"], "setStatus", t="at lunch")
    return await versions.ask(server, given["alice"], "setPresence", s="DND")


async def _presence(versions: Versions, server: ServerProcess, given: Json) -> Any:
    (found,) = await versions.ask(server, given["bob"], "presences", ids=[given["alice"]])
    return found["status"], (found["customStatus"] or {}).get("text")


FEATURES = {
    "a message in a list": Feature(_private, _send, _list, [("two", 2)]),
    "a message in a group": Feature(_group, _send, _list, [("two", 2)]),
    "an edit": Feature(_private, _edit, _last, "edited"),
    "reading": Feature(_group, _by_bob("markRead"), _of_session("unreadCount"), 0),
    "a mute": Feature(_private, _by_bob("muteSession", muted=True), _of_session("muteStatus"), True),
    "a pin": Feature(_group, _by_bob("pinSession", priority=7), _of_session("priority"), 7),
    "an unread mark": Feature(_private, _by_bob("setUnread"), _of_session("unreadStatus"), True),
    "a message in a channel": Feature(_channel, _send, _channel_counts, (1, 1, True)),
    "a channel's topic": Feature(_channel, _rename, _topic, "rocks"),
    "a presence": Feature(_private, _status, _presence, ("OFFLINE", "at lunch")),
}


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("by_new", [False, True], ids=["old changes", "new changes"])
@pytest.mark.parametrize("name", FEATURES)
async def test_both_versions_read_the_same_after_a_change(
    versions: Versions, name: str, by_new: bool, is_cold: bool
) -> None:
    feature = FEATURES[name]
    given = await feature.prepare(versions)
    changing, other = (versions.new, versions.old) if by_new else (versions.old, versions.new)
    if not is_cold:
        for server in (other, changing):
            await feature.read(versions, server, given)
    await feature.change(versions, changing, given)
    if is_cold:
        await versions.forget()
    for server in (other, changing, other):
        await wait_until(lambda server=server: _reads(feature, versions, server, given))
    assert [await feature.read(versions, server, given) for server in (other, changing)] == [feature.expected] * 2


async def _reads(feature: Feature, versions: Versions, server: ServerProcess, given: Json) -> bool:
    return bool(await feature.read(versions, server, given) == feature.expected)


@pytest.mark.parametrize("by_new", [False, True], ids=["old changes", "new changes"])
async def test_both_versions_show_voice_states_and_devices_of_the_other(versions: Versions, by_new: bool) -> None:
    given = await _channel(versions)
    joined_at, other = (versions.new, versions.old) if by_new else (versions.old, versions.new)
    channel = {"workspaceId": given["workspace"], "name": "hall", "kind": "VOICE"}
    hall = (await versions.ask(other, given["alice"], "createVoice", input=channel))["id"]
    async with open_admitted_socket(f"ws://127.0.0.1:{joined_at.port}/graphql") as peer:
        payload = {"Authorization": f"Bearer {token(given['bob'])}", "deviceId": "phone"}
        await peer.send({"type": "connection_init", "payload": payload})
        assert (await peer.receive())["type"] == "connection_ack"
        await peer.subscribe("join", JOIN, variables={"id": hall, "mute": True})
        assert "errors" not in (await peer.receive())["payload"]
        for server in (other, joined_at):
            await wait_until(lambda server=server: _shows(versions, server, given, hall, [(given["bob"], True)]))
            await wait_until(lambda server=server: _has_status(versions, server, given, "ONLINE"))
    # Servers show this 15 s after the connection has ended.
    await wait_until(lambda: _has_status(versions, other, given, "OFFLINE"), within=120)


async def _shows(versions: Versions, server: ServerProcess, given: Json, hall: str, expected: Any) -> bool:
    states = (await versions.ask(server, given["alice"], "voiceStates", id=hall))["voiceStates"]
    return [(state["user"]["id"], state["selfMute"]) for state in states] == expected


async def _has_status(versions: Versions, server: ServerProcess, given: Json, status: str) -> bool:
    (found,) = await versions.ask(server, given["alice"], "presences", ids=[given["bob"]])
    return bool(found["status"] == status)
