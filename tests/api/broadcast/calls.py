"""Replies with broadcast, and what readers are shown of reply and copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api.client import Api, Json
from tests.api.threads.live_calls import ThreadPlace

SHOWN = """id conversationId seq content state editCount mentionsAll isPinned mentions { id } recalledBy { id }
    reactions { emoji count viewerReacted users { id } } thread { id replyCount }"""
MESSAGE = f"query ($id: ID!) {{ message(id: $id) {{ {SHOWN} broadcastOf {{ {SHOWN} }} }} }}"
PAGE = f"""query ($id: ID!) {{ messages(conversationId: $id, last: 50) {{ edges {{ node {{
    {SHOWN} broadcastOf {{ id conversationId content }} }} }} }} }}"""
COMMON = ("content", "state", "editCount", "mentionsAll", "mentions", "recalledBy", "reactions", "thread")
"""Fields that reply and copy have in common."""


@dataclass
class Broadcast:
    """A reply with its copy."""

    place: ThreadPlace
    reply: Json
    copy: Json


async def find(api: Api, user: str, message: str) -> Json:
    found: Json = (await api.data(user, MESSAGE, id=message))["message"]
    return found


async def page(api: Api, user: str, conversation: str) -> list[Json]:
    edges = (await api.data(user, PAGE, id=conversation))["messages"]["edges"]
    return [edge["node"] for edge in edges]


async def broadcast(api: Api, sender: str, place: ThreadPlace, content: str = "both", **more: Any) -> Broadcast:
    """Send a reply with broadcast."""
    sent = (await api.send(sender, place.parent["id"], content, broadcast=True, **more))["message"]
    assert sent["conversationId"] == place.id
    (copy,) = await copies_of(api, sender, place, sent["id"])
    await api.wait_until_idle()
    return Broadcast(place, sent, copy)


async def copies_of(api: Api, user: str, place: ThreadPlace, reply: str) -> list[Json]:
    shown = await page(api, user, place.conversation)
    return [each for each in shown if each["broadcastOf"] is not None and each["broadcastOf"]["id"] == reply]


async def expect_same(api: Api, user: str, made: Broadcast, **expected: Any) -> None:
    """Check that reply and copy show the same, by their ids and in both pages."""
    reply, copy = await find(api, user, made.reply["id"]), await find(api, user, made.copy["id"])
    assert copy["conversationId"] == made.place.conversation and reply["broadcastOf"] is None
    assert copy["broadcastOf"] == {name: value for name, value in reply.items() if name != "broadcastOf"}
    assert [copy[name] for name in COMMON] == [reply[name] for name in COMMON]
    assert {name: copy[name] for name in expected} == expected
    in_thread = [each for each in await page(api, user, made.place.id) if each["id"] == reply["id"]]
    (in_parent,) = await copies_of(api, user, made.place, reply["id"])
    for name in COMMON:
        assert in_thread[0][name] == in_parent[name] == reply[name]
