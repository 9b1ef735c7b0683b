"""A site whose pages have previews, and what readers are shown of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.previews.embed import Embed, EmbedKind
from tests.api.client import Api, Json

EMBED = """type url title description siteName authorName color publishedAt
    image { url width height } thumbnail { url } fields { name value inline }"""
SHOWN = f"id conversationId seq content editCount editedAt state embeds {{ {EMBED} }}"
FIND = f"query ($id: ID!) {{ message(id: $id) {{ {SHOWN} }} }}"
EVENTS = f"""subscription ($since: Cursor) {{ messageEvents(since: $since) {{
    __typename
    ... on MessageCreated {{ message {{ {SHOWN} }} cursor }}
    ... on MessageUpdated {{ message {{ {SHOWN} }} cursor }}
    ... on MessageRecalled {{ message {{ {SHOWN} }} cursor }}
    ... on CaughtUp {{ cursor reset }} }} }}"""
LOOK = f"""subscription ($channels: [Position!]!) {{ channelEvents(channels: $channels) {{
    __typename
    ... on ChannelMessage {{ change message {{ {SHOWN} }} rev }}
    ... on ChannelCaughtUp {{ conversationId rev reset }} }} }}"""
SUPPRESS = f"mutation ($id: ID!) {{ suppressEmbeds(messageId: $id) {{ {SHOWN} }} }}"


class FakeSite:
    """Answers each link with a preview that has the link's path as its title. Links with `nothing` have none."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        """Unset it to let fetches wait."""
        self.answers.set()

    async def find_preview(self, link: str) -> Embed | None:
        self.fetched.append(link)
        self.asked.set()
        await self.answers.wait()
        if "nothing" in link:
            return None
        return Embed(EmbedKind.LINK, True, link, title=link.rpartition("/")[2])

    def hold(self) -> None:
        """Let fetches wait from now on."""
        self.asked.clear()
        self.answers.clear()

    def serve(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a process fetch from this site."""
        previews = api.services.app.previews
        monkeypatch.setattr(previews, "is_enabled", True)
        monkeypatch.setattr(previews, "find_preview", self.find_preview)


async def find(api: Api, user: str, message: Json) -> Json:
    found: Json = (await api.data(user, FIND, id=message["id"]))["message"]
    return found


async def send(api: Api, sender: str, to: str, content: str, **more: Any) -> Json:
    """Send a message and wait until its links are fetched."""
    sent: Json = (await api.send(sender, to, content, **more))["message"]
    await api.wait_until_idle()
    return sent


async def suppress(api: Api, user: str, message: Json) -> Json:
    suppressed: Json = (await api.data(user, SUPPRESS, id=message["id"]))["suppressEmbeds"]
    return suppressed


def titles(message: Json) -> list[str | None]:
    return [embed["title"] for embed in message["embeds"]]


def stored_embeds(api: Api, message: Json) -> Json:
    """Return the stored embeds of a message, with its mark."""
    row = api.database["messages"].find_one({"c": message["conversationId"], "_id": int(message["id"][2:])})
    assert row is not None
    found: Json = row.get("em", {})
    return found
