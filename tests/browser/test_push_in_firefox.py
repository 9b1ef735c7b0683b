"""A message becomes a notification in Firefox, which decrypts it and runs the demo's service worker."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import MongoClient
from redis import Redis
from redis.cluster import RedisCluster

from server.http.static_pages import STATIC
from tests.browser.conftest import serve_development
from tests.browser.firefox import FIREFOX, Firefox, open_firefox
from tests.browser.push_service import LocalPushService, local_push_service


def _why_not() -> str | None:
    if FIREFOX is None:
        return "firefox-esr is not installed"
    return None if (STATIC / "demo" / "sw.js").is_file() else "the demo has not been built (make web)"


pytestmark = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")

PATIENCE = 90.0
"""Seconds that a check waits for something that should happen at once, on a busy machine."""

SEND = """mutation($input: SendMessageInput!) { sendMessage(input: $input) { message { conversationId seq } } }"""
SHOWN = """navigator.serviceWorker.getRegistration("/demo/").then((found) => found.getNotifications()).then(
  (all) => all.map(({ title, body, data }) => ({ title, body, conversationId: data.conversationId })))"""
OPEN_DIALOG = (
    """document.querySelector("[data-connection='Active'] button[aria-label='More']")""",
    """[...document.querySelectorAll("[role=menuitem]")].find((each) => each.textContent === "Notifications")""",
)
SWITCH_ON = (*OPEN_DIALOG, """document.querySelector(".this-browser[data-state=off] button")""")
SWITCH_OFF = (*OPEN_DIALOG, """document.querySelector(".this-browser[data-state=on] button:last-child")""")
IS_ON = """!!document.querySelector(".this-browser[data-state=on]")"""
IS_OFF = """!!document.querySelector(".this-browser[data-state=off]")"""
BLANK = "about:blank"


@dataclass
class Stage:
    """A browser of Alice, its push service, and a Confab."""

    url: str
    firefox: Firefox
    service: LocalPushService
    http: httpx.AsyncClient

    async def ask(self, user: str, query: str, **variables: Any) -> Any:
        """Return the data of a request of a user from another device."""
        token = (await self.http.post("/dev/sign-in", json={"userId": user})).json()["token"]
        answer = await self.http.post(
            "/graphql", json={"query": query, "variables": variables}, headers={"authorization": f"Bearer {token}"}
        )
        found = answer.json()
        assert "errors" not in found, found
        return found["data"]

    async def send(self, content: str) -> str:
        """Send a message from Bob to Alice; return its conversation."""
        given = {"toUserId": "alice", "content": content, "idempotencyKey": uuid.uuid4().hex}
        sent = await self.ask("bob", SEND, input=given)
        conversation: str = sent["sendMessage"]["message"]["conversationId"]
        return conversation

    async def click(self, elements: Iterable[str]) -> None:
        """Click each element of the page as soon as it is there."""
        for element in elements:
            await self.until_true(f"!!({element})")
            await self.firefox.run(f"({element}).click()")

    async def until(self, holds: Callable[[], Awaitable[object]]) -> None:
        """Wait until a condition holds."""
        async with asyncio.timeout(PATIENCE):
            while not await holds():  # noqa: ASYNC110  # a page has no events here
                await asyncio.sleep(0.1)

    async def until_true(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        await self.until(lambda: self.firefox.run(expression))

    async def until_delivered(self, number: int) -> None:
        """Wait until the browser has acknowledged this many pushes in all."""

        async def delivered() -> bool:
            assert not self.service.refusals
            return len(self.service.channel.delivered) >= number

        await self.until(delivered)

    async def notifications(self, holds: Callable[[list[Any]], bool]) -> list[Any]:
        """Return the notifications as soon as a condition holds for them, from a page that is not the demo."""
        await self.firefox.open(f"{self.url}/demo/sw.js")
        shown: list[Any] = []

        async def look() -> bool:
            nonlocal shown
            shown = await self.firefox.run(SHOWN)
            return holds(shown)

        try:
            await self.until(look)
        except TimeoutError:
            pytest.fail(f"shown: {shown}; accepted: {self.service.channel}")
        await self.firefox.open(BLANK)
        return shown


@pytest.fixture
async def stage(
    mongo_url: str,
    redis_url: str,
    _mongo_janitor: MongoClient[dict[str, Any]],
    _redis_janitor: Redis | RedisCluster,
) -> AsyncIterator[Stage]:
    # Not pytest's folder: Firefox writes files there until it has ended, and they may be large.
    folder = Path(tempfile.mkdtemp(prefix="confab-firefox-"))
    try:
        async with (
            local_push_service() as service,
            serve_development(mongo_url, redis_url, _mongo_janitor, _redis_janitor) as url,
            httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http,
            open_firefox(
                folder,
                {
                    "dom.push.serverURL": service.websocket_url,
                    "dom.push.testing.allowInsecureServerURL": True,
                    "permissions.default.desktop-notification": 1,
                    "alerts.useSystemBackend": False,
                },
            ) as firefox,
        ):
            yield Stage(url, firefox, service, http)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_browser_without_an_open_page_shows_replaces_and_removes_a_notification(stage: Stage) -> None:
    await stage.ask("alice", "mutation { setNotificationSettings(input: {delaySeconds: 0}) { delaySeconds } }")
    await stage.firefox.open(f"{stage.url}/demo?as=alice")
    await stage.click(SWITCH_ON)
    await stage.until_true(IS_ON)
    assert not stage.service.channel.accepted
    await stage.firefox.open(BLANK)

    conversation = await stage.send("Are you up for the lake?")
    await stage.until_delivered(1)
    shown = await stage.notifications(lambda all: len(all) == 1)
    assert shown == [{"title": "Bob Baker", "body": "Are you up for the lake?", "conversationId": conversation}]

    await stage.send("Saturday at nine")
    await stage.until_delivered(2)
    shown = await stage.notifications(lambda all: [each["body"] for each in all] == ["Saturday at nine"])
    assert shown == [{"title": "Bob Baker", "body": "Saturday at nine", "conversationId": conversation}]

    # Read on another device.
    await stage.ask("alice", "mutation($id: ID!) { markRead(conversationId: $id) { unreadCount } }", id=conversation)
    await stage.notifications(lambda all: not all)
    assert len(stage.service.channel.delivered) == len(stage.service.channel.accepted) == 3

    await stage.firefox.open(f"{stage.url}/demo?as=alice")
    await stage.click(SWITCH_OFF)
    await stage.until_true(IS_OFF)
    assert not stage.service.channels
    assert (await stage.ask("alice", "{ devices { pushPlatform } }"))["devices"] == [{"pushPlatform": None}]
