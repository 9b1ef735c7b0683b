"""The bot of the guide answers each command once, in every channel that it can see, whatever ends meanwhile."""

from __future__ import annotations

import asyncio
import importlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from server.cli.tokens import mark_as_bot
from server.embedded import ports
from server.settings import Settings
from store.base.ids import UserId
from tests.clients.programs import GUIDE
from tests.processes import ServerProcess, start_server, token, until_ready
from tests.waiting import wait_for

BOT = "helper"
JOIN = "mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id } }"
CREATE_WORKSPACE = "mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { id } }"
CREATE_CHANNEL = "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }"
DENY = """mutation ($channel: ID!, $user: ID!) {
    setPermissionOverwrite(channelId: $channel, userId: $user, deny: [VIEW_CHANNEL]) { allow } }"""
THREAD = "query ($id: ID!) { message(id: $id) { thread { id } } }"
HISTORY = "query ($id: ID!) { messages(conversationId: $id) { edges { node { content sender { id } } } } }"
TIMEOUT_SECONDS = 60.0


class Servers:
    """One server process, which can be started again on the same port."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._log = folder / "server.log"
        self.port = ports.pick_free()
        self.running: ServerProcess | None = None

    async def start(self) -> None:
        settings = self._settings
        of_test = {"CONFAB_REDIS_PREFIX": settings.redis_prefix}
        self.running = start_server(settings, self.port, self._log, settings.mongo_database, environment=of_test)
        await until_ready(self.running)

    async def stop(self) -> None:
        if self.running is not None:
            await asyncio.to_thread(self.running.stop)


class Chat:
    """A person who writes commands in a workspace, and the bot of the guide."""

    def __init__(self, person: Any, guide: ModuleType, url: str) -> None:
        self.person = person
        self.positions: dict[str, int] = {}
        self._guide = guide
        self._url = url

    async def create_workspace(self) -> str:
        """Return a workspace of which the bot is a member."""
        made = await self.person.ask(CREATE_WORKSPACE, input={"name": "Hikers", "isOpen": True})
        workspace: str = made["createWorkspace"]["id"]
        async with self._client(BOT) as bot:
            await bot.ask(JOIN, id=workspace)
        return workspace

    async def create_channel(self, workspace: str, name: str) -> str:
        made = await self.person.ask(CREATE_CHANNEL, input={"workspaceId": workspace, "name": name})
        channel: str = made["createChannel"]["id"]
        return channel

    async def command(self, channel: str, content: str, content_type: str = "BOT_COMMAND") -> str:
        """Send a message. Return its id."""
        sent = await self.person.send(conversationId=channel, content=content, contentType=content_type)
        message: str = sent["id"]
        return message

    async def replies(self, message: str) -> list[str]:
        """Return the replies of the bot to a message."""
        thread = (await self.person.ask(THREAD, id=message))["message"]["thread"]
        if thread is None:
            return []
        edges = (await self.person.ask(HISTORY, id=thread["id"]))["messages"]["edges"]
        return [edge["node"]["content"] for edge in edges if edge["node"]["sender"]["id"] == BOT]

    async def wait_for_reply(self, message: str) -> list[str]:
        """Return the replies as soon as there is one."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not (replies := await self.replies(message)):  # noqa: ASYNC110  # only the server knows
                await asyncio.sleep(0.05)
            return replies

    @asynccontextmanager
    async def bot(self, positions: dict[str, int] | None = None) -> AsyncIterator[None]:
        """Run the bot, from the positions that it stored last."""
        module = importlib.import_module("channel_bot")

        def remember(known: dict[str, int]) -> None:
            self.positions = dict(known)

        async with self._client(BOT) as confab:
            start = self.positions if positions is None else positions
            running = module.ChannelBot(confab, lambda text: f"answer to {text}", dict(start), remember).run()
            task = asyncio.create_task(running)
            try:
                yield
            finally:
                task.cancel()
                ended = await asyncio.gather(task, return_exceptions=True)
                assert isinstance(ended[0], asyncio.CancelledError), ended

    def _client(self, user: str) -> Any:
        return self._guide.Confab(self._url, signer(user))


def signer(user: str) -> Callable[[], Any]:
    async def sign() -> str:
        return token(user)

    return sign


@pytest.fixture
async def servers(module_settings: Settings, tmp_path: Path) -> AsyncIterator[Servers]:
    servers = Servers(module_settings, tmp_path)
    await servers.start()
    yield servers
    await servers.stop()


@pytest.fixture
async def chat(servers: Servers, module_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chat]:
    pytest.importorskip("gql", reason="needs gql")
    monkeypatch.syspath_prepend(str(GUIDE))
    guide, url = importlib.import_module("gql_client"), f"http://127.0.0.1:{servers.port}/graphql"
    monkeypatch.setattr(importlib.import_module("channel_bot"), "LIST_AGAIN_SECONDS", 0.2)
    await mark_as_bot(module_settings, UserId(BOT))
    async with AsyncExitStack() as stack:
        person = await stack.enter_async_context(guide.Confab(url, signer(f"ann-{secrets.token_hex(4)}")))
        await person.ask("{ me { id } }")
        yield Chat(person, guide, url)


async def test_it_answers_commands_in_all_channels_and_nothing_else(chat: Chat) -> None:
    workspace = await chat.create_workspace()
    first = await chat.create_channel(workspace, "first")
    async with chat.bot():
        command = await chat.command(first, "one")
        assert await chat.wait_for_reply(command) == ["answer to one"]
        text = await chat.command(first, "no command", "TEXT")
        # A channel that is new, and a workspace that is new.
        second = await chat.create_channel(workspace, "second")
        in_new = await chat.command(second, "two")
        assert await chat.wait_for_reply(in_new) == ["answer to two"]
        other = await chat.create_channel(await chat.create_workspace(), "other")
        await wait_for(lambda: other in chat.positions, TIMEOUT_SECONDS)
        assert await chat.wait_for_reply(await chat.command(other, "three")) == ["answer to three"]
        # A channel that it cannot see any more.
        await chat.person.ask(DENY, channel=first, user=BOT)
        hidden = await chat.command(first, "four")
        assert await chat.wait_for_reply(await chat.command(second, "five")) == ["answer to five"]
    assert await chat.replies(text) == await chat.replies(hidden) == []
    assert first not in chat.positions


async def test_it_goes_on_if_its_connection_ends_while_it_sees_no_channel(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = importlib.import_module("gql_client")
    subscribe = guide.Confab.subscribe

    async def interrupted(self: Any, document: str, variables: Callable[[], dict[str, Any]]) -> AsyncIterator[Any]:
        while True:
            async with aclosing(subscribe(self, document, variables)) as answers:
                async for data in answers:
                    yield data
                    if data.get("channelEvents", {}).get("__typename") == "AccessEnded":
                        break

    monkeypatch.setattr(guide.Confab, "subscribe", interrupted)
    workspace = await chat.create_workspace()
    first = await chat.create_channel(workspace, "first")
    async with chat.bot():
        assert await chat.wait_for_reply(await chat.command(first, "one")) == ["answer to one"]
        await chat.person.ask(DENY, channel=first, user=BOT)
        await wait_for(lambda: first not in chat.positions, TIMEOUT_SECONDS)
        second = await chat.create_channel(workspace, "second")
        assert await chat.wait_for_reply(await chat.command(second, "two")) == ["answer to two"]


async def test_it_answers_once_after_its_own_restart_and_that_of_the_server(chat: Chat, servers: Servers) -> None:
    channel = await chat.create_channel(await chat.create_workspace(), "general")
    async with chat.bot():
        before = await chat.command(channel, "before")
        assert await chat.wait_for_reply(before) == ["answer to before"]
        await servers.stop()
        await servers.start()
        after = await chat.command(channel, "after")
        assert await chat.wait_for_reply(after) == ["answer to after"]
    old = dict(chat.positions)
    missed = await chat.command(channel, "missed")
    for _ in range(2):
        # The second time it has not stored what it answered.
        async with chat.bot(old):
            assert await chat.wait_for_reply(missed) == ["answer to missed"]
            last = await chat.command(channel, "last")
            assert await chat.wait_for_reply(last) == ["answer to last"]
    for message in (before, after, missed):
        assert len(await chat.replies(message)) == 1


async def test_commands_without_an_answer_are_answered_if_the_position_is_too_old(chat: Chat) -> None:
    channel = await chat.create_channel(await chat.create_workspace(), "general")
    async with chat.bot():
        answered = await chat.command(channel, "answered")
        assert await chat.wait_for_reply(answered) == ["answer to answered"]
    missed = await chat.command(channel, "missed")
    async with chat.bot(dict.fromkeys(chat.positions, 1)):
        assert await chat.wait_for_reply(missed) == ["answer to missed"]
    assert await chat.replies(answered) == ["answer to answered"]
