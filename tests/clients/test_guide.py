"""The code of the client guide works against a real server, and the guide contains no other code."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType

import httpx
import jwt
import pytest
import websockets
from graphql import parse, validate
from pydantic import SecretStr

from resolvers.base.errors import ConfabError
from resolvers.push.services.vapid import VapidKey
from schema.root import SCHEMA
from server.settings import DEVELOPMENT_SECRET as SECRET
from server.settings import Settings
from tests.clients.programs import GUIDE, ROOT, ProgramResult, Workshop, missing
from tests.server.served_app import serving_app

PROGRAMS = ("signing_in", "ids", "socket", "plain", "sse", "apollo", "urql", "relay", "storms", "searching", "pushing")
DOCS = ROOT / "docs"
PAGES = (DOCS / "clients.md", *sorted(DOCS.glob("clients/*.md")), *sorted(DOCS.glob("features/*.md")))
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)

_MISSING = missing()
needs_node = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))

Run = Callable[[str], Awaitable[ProgramResult]]


@pytest.fixture(scope="module")
async def url(module_settings: Settings) -> AsyncIterator[str]:
    """The address of a server."""
    push = {
        "vapid_private_key": SecretStr(VapidKey.generate().private_text),
        "vapid_contact": "mailto:tests@example.org",
    }
    settings = module_settings.model_copy(update={"jwt_secret": SecretStr(SECRET), "development": True, **push})
    async with serving_app(settings) as app:
        yield f"http://127.0.0.1:{app.served.port}/graphql"


@pytest.fixture(scope="module")
def run(url: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a program. The first call runs all of them in parallel: they mostly wait."""
    workshop = Workshop(tmp_path_factory.mktemp("guide"))
    tasks: dict[str, asyncio.Task[ProgramResult]] = {}

    async def built_and_run(program: str) -> ProgramResult:
        build = await tasks["build_relay"]
        return await workshop.run(program, url, SECRET) if build.status == 0 else build

    def ran(program: str) -> asyncio.Task[ProgramResult]:
        if not tasks:
            tasks["build_relay"] = asyncio.create_task(workshop.run("build_relay", url, SECRET))
            for name in (*PROGRAMS, "traps"):
                tasks[name] = asyncio.create_task(built_and_run(name))
        return tasks[program]

    return ran


@needs_node
@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_client_of_the_guide_works(run: Run, program: str) -> None:
    ran = await run(program)
    assert ran.status == 0, ran.output
    assert "ok " in ran.output


@needs_node
@pytest.mark.parametrize(
    "program",
    ["apollo", *(pytest.param(name, marks=pytest.mark.long) for name in ("plain", "sse", "urql", "relay"))],
)
async def test_a_client_of_the_guide_runs_a_whole_chat(run: Run, program: str) -> None:
    assert "ok it creates, renames and leaves groups, and invites" in (await run(program)).output


@needs_node
async def test_each_warning_of_the_guide_is_true(run: Run) -> None:
    ran = await run("traps")
    assert ran.status == 0, ran.output
    promised = set(re.findall(r"<!-- trap: (.+?) -->", TEXT))
    assert promised == set(re.findall(r"^ok (.+)$", ran.output, re.MULTILINE))


@needs_node
async def test_every_javascript_block_is_from_a_file_that_was_run(run: Run) -> None:
    loaded = frozenset[str]().union(*[(await run(program)).loaded for program in PROGRAMS])
    texts = [(GUIDE / name).read_text() for name in loaded if (GUIDE / name).is_file()]
    # The build makes Chat.mjs from Chat.jsx.
    assert "relay/Chat.mjs" in loaded
    texts.append((GUIDE / "relay" / "Chat.jsx").read_text())
    shown = [text for kind, text in BLOCKS if kind in ("js", "jsx")]
    assert shown
    for text in shown:
        assert any(text in whole for whole in texts), f"no file that was run contains this:\n{text}"


def test_every_other_block_is_from_a_file_or_valid() -> None:
    kinds = {kind for kind, _ in BLOCKS}
    assert kinds <= {"js", "jsx", "python", "json", "sh", "ts", "graphql", "http", "text"}
    files = {"python": GUIDE.glob("*.py"), "json": GUIDE.glob("relay/*.json")}
    texts = {kind: [path.read_text() for path in paths] for kind, paths in files.items()}
    for kind, text in BLOCKS:
        if kind in texts:
            assert any(text in whole for whole in texts[kind]), f"in no file:\n{text}"
        if kind == "graphql":
            assert validate(SCHEMA._schema, parse(text)) == []


def test_the_installed_packages_are_the_tested_ones() -> None:
    tried = json.loads((ROOT / "bench" / "package.json").read_text())["dependencies"]
    installed = re.findall(r"npm install (?:--save-dev )?(.+)", TEXT)
    assert installed
    assert {name for line in installed for name in line.split()} <= set(tried)


def test_the_table_of_error_codes_matches_the_server() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (yes|no) \|", TEXT, re.MULTILINE)
    leaves = {leaf.code: "yes" if leaf.retryable else "no" for leaf in ConfabError.__subclasses__()}
    assert dict(rows) == leaves | {"INTERNAL": "no"}
    assert len(rows) == len(leaves) + 1


def _signer(user: str, seconds: float) -> Callable[[], Awaitable[str]]:
    async def token() -> str:
        return jwt.encode({"sub": user, "exp": time.time() + seconds}, SECRET, algorithm="HS256")

    return token


@pytest.fixture
def guide(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The guide's Python client, as a module."""
    pytest.importorskip("gql", reason="needs gql")
    monkeypatch.syspath_prepend(str(GUIDE))
    return importlib.import_module("gql_client")


async def test_gql_receives_every_event_and_sends_once(url: str, guide: ModuleType) -> None:
    async with guide.Confab(url, _signer("py-alice", 60)) as alice, guide.Confab(url, _signer("py-bob", 60)) as bob:
        await alice.ask("{ me { id } }")
        await bob.send(toUserId="py-alice", content="first")
        (page,) = [page async for page in alice.sessions()]
        assert [row["unreadCount"] for row in page["sessions"]] == [1]
        events = alice.events(page["cursor"])
        assert (await anext(events))["__typename"] == "CaughtUp"
        for content in ("second", "third"):
            await bob.send(toUserId="py-alice", content=content)
            assert (await anext(events))["message"]["content"] == content
        await events.aclose()
        # It resumes where it stopped.
        await bob.send(toUserId="py-alice", content="fourth")
        again = alice.events(page["cursor"])
        missed = [(await anext(again))["message"]["content"] for _ in range(3)]
        assert missed == ["second", "third", "fourth"]
        await again.aclose()
        with pytest.raises(guide.TransportQueryError) as refused:
            await alice.send(toUserId="py-alice", content="to myself")
        assert refused.value.errors[0]["extensions"]["code"] == "INVALID_INPUT"
        key = {"toUserId": "py-alice", "content": "once", "idempotencyKey": "the same"}
        assert await bob.send(**key) == await bob.send(**key)


async def test_gql_names_its_device(url: str, guide: ModuleType) -> None:
    async with guide.Confab(url, _signer("py-pam", 60), device_id="pam's laptop") as pam:
        events = pam.events()
        assert (await anext(events))["__typename"] == "CaughtUp"
        devices: list[dict[str, str]] = []
        async with asyncio.timeout(60):
            while not devices:
                devices = (await pam.ask("{ devices { id type } }"))["devices"]
        assert devices == [{"id": "pam's laptop", "type": "DESKTOP"}]
        await events.aclose()


async def test_gql_sends_a_file_once(url: str, guide: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes of the trip " * 20_000)
    sent: list[int] = []
    async with guide.Confab(url, _signer("py-kim", 60)) as kim, guide.Confab(url, _signer("py-lea", 60)) as lea:
        for user in (kim, lea):
            await user.ask("{ me { id } }")
        uploads = [await kim.upload(path, "p_py-kim_py-lea", key="one", progress=sent.append) for _ in range(2)]
        assert uploads[0] == uploads[1]
        assert (uploads[0]["state"], uploads[0]["contentType"]) == ("READY", "text/plain")
        assert sent[-1] == path.stat().st_size > sent[0]
        await kim.send(toUserId="py-lea", content="", attachmentIds=[uploads[0]["id"]])
        (message,) = [message async for message in lea.history("p_py-kim_py-lea")]
    (file,) = message["attachments"]
    async with httpx.AsyncClient(timeout=60) as http:
        assert (await http.get(file["url"])).content == path.read_bytes()


async def test_gql_runs_a_whole_chat(url: str, guide: ModuleType) -> None:
    async with AsyncExitStack() as stack:
        users = [guide.Confab(url, _signer(f"py-{name}", 60)) for name in ("fay", "gil", "hal", "ivy")]
        for user in users:
            await stack.enter_async_context(user)
            await user.ask("{ me { id } }")
        fay, gil, _, ivy = users
        heard = gil.events()
        assert (await anext(heard))["__typename"] == "CaughtUp"
        sent = await fay.send(toUserId="py-gil", content="helo")
        conversation = sent["conversationId"]
        assert (await anext(heard))["message"]["content"] == "helo"
        # Others learn that a device is connected up to 50 ms later. Until then there is nobody to notify.
        async with asyncio.timeout(60):
            while not await fay.act("startTyping", conversationId=conversation):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (await anext(heard))["__typename"] == "TypingStarted"
        assert await fay.act("stopTyping", conversationId=conversation)
        assert (await anext(heard))["__typename"] == "TypingStopped"
        await fay.act("editMessage", messageId=sent["id"], content="hello")
        assert (await anext(heard))["__typename"] == "MessageUpdated"
        await heard.aclose()
        assert (await gil.act("ackDelivered", conversationId=conversation, upToSeq=sent["seq"]))["deliveredSeq"] == 1
        assert (await gil.act("markRead", conversationId=conversation))["unreadCount"] == 0
        assert [message["content"] async for message in gil.history(conversation)] == ["hello"]
        assert (await fay.act("recallMessage", messageId=sent["id"]))["state"] == "RECALLED"
        members = {"name": "Trip", "memberIds": ["py-gil", "py-hal"], "idempotencyKey": "trip"}
        group = await fay.act("createGroup", input=members)
        assert (await fay.act("inviteMembers", groupId=group["id"], userIds=["py-ivy"]))["memberCount"] == 4
        assert (await fay.act("updateGroup", groupId=group["id"], input={"name": "Lake"}))["name"] == "Lake"
        assert await ivy.act("leaveGroup", groupId=group["id"])
        with pytest.raises(guide.TransportQueryError):
            await fay.act("leaveGroup", groupId=group["id"])
        assert [message async for message in gil.history("p_py-gil_py-nobody")] == []


async def test_the_operations_on_threads_reactions_and_pins_work(url: str, guide: ModuleType) -> None:
    documents = {text.split(None, 2)[1].partition("(")[0]: text for kind, text in BLOCKS if kind == "graphql"}
    init = {"Authorization": f"Bearer {await _signer('py-una', 60)()}"}
    socket = guide.WebsocketsTransport(url=url.replace("http", "ws", 1), init_payload=init)
    async with guide.Confab(url, _signer("py-una", 60)) as una, guide.Confab(url, _signer("py-vic", 60)) as vic:
        for user in (una, vic):
            await user.ask("{ me { id } }")
        sent = await una.send(toUserId="py-vic", content="Where do we meet?")
        conversation, message = sent["conversationId"], sent["id"]
        async with guide.Client(transport=socket) as session:
            watched = {"channels": [{"id": conversation, "rev": None}]}
            request = guide.GraphQLRequest(documents["Watch"], variable_values=watched)
            events = session.subscribe(request)
            assert (await anext(events))["channelEvents"]["__typename"] == "ChannelCaughtUp"
            answer = await vic.ask(documents["Reply"], messageId=message, content="Here", idempotencyKey="once")
            assert answer["sendMessage"]["message"]["thread"]["viewerFollows"]
            await vic.ask(documents["React"], messageId=message, emoji="👍")
            assert (await vic.ask(documents["Pin"], messageId=message))["pinMessage"]["isPinned"]
            awaited = {"ChannelThread", "ChannelReactions", "ChannelPins"}
            while awaited:
                awaited.discard((await anext(events))["channelEvents"]["__typename"])
            # Otherwise gql waits 10 s for its end.
            await events.aclose()
        shown = await una.ask(documents["Conversation"], conversationId=conversation)
    nodes = {edge["node"]["id"]: edge["node"] for edge in shown["messages"]["edges"]}
    assert nodes[message]["isPinned"]
    assert [(each["emoji"], each["count"]) for each in nodes[message]["reactions"]] == [("👍", 1)]
    assert nodes[message]["thread"]["replyCount"] == 1
    assert [edge["node"]["id"] for edge in shown["pinnedMessages"]["edges"]] == [message]
    assert [edge["node"]["title"] for edge in shown["threads"]["edges"]] == ["Where do we meet?"]


@pytest.mark.parametrize("code", [4400, 4401, 4403, 4429, 1012, 1013])
async def test_gql_connects_at_most_once_per_back_off(
    guide: ModuleType, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    tries = 0
    waits: list[float] = []

    async def end(socket: websockets.ServerConnection) -> None:
        nonlocal tries
        tries += 1
        await socket.recv()
        await socket.send('{"type": "connection_ack"}')
        await socket.close(code)

    def note_wait(error: Exception, attempt: int) -> float | None:
        wait: float | None = wait_before(error, attempt)
        if wait is None or sum(waits) + wait > 5:
            return None
        waits.append(wait)
        return 0.0

    wait_before = guide.wait_before
    monkeypatch.setattr(guide, "wait_before", note_wait)
    protocol = websockets.Subprotocol("graphql-transport-ws")
    async with websockets.serve(end, "127.0.0.1", 0, subprotocols=[protocol]) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(guide.TransportError):
            await anext(guide.Confab(f"http://127.0.0.1:{port}", _signer("py-jon", 60)).events())
    assert tries == 1 if code in (4400, 4401, 4429) else 3 <= tries <= 5


async def test_gql_renews_the_token_of_its_connection(url: str, guide: ModuleType) -> None:
    async with guide.Confab(url, _signer("py-erin", 60)) as erin:
        await erin.ask("{ me { id } }")
    async with guide.Confab(url, _signer("py-bob", 60)) as bob:
        for seconds in (2, 8, 32):
            events = guide.Confab(url, _signer("py-erin", seconds)).events()
            assert (await anext(events))["__typename"] == "CaughtUp"
            await asyncio.sleep(seconds + 0.1)
            await bob.send(toUserId="py-erin", content="later")
            is_same_connection = (await anext(events))["__typename"] == "MessageCreated"
            await events.aclose()
            # A busy machine may renew a short token too late.
            if is_same_connection:
                return
    pytest.fail("each connection ended with its first token")


async def test_a_restarted_bot_with_gql_answers_each_message_once(url: str, guide: ModuleType) -> None:
    main = importlib.import_module("bot").main
    async with guide.Confab(url, _signer("py-carol", 60)) as carol:
        await carol.ask("{ me { id } }")
        async with guide.Confab(url, _signer("py-bot", 60)) as bot:
            await bot.ask("{ me { id } }")
            page = [page async for page in bot.sessions()][-1]
        await carol.send(toUserId="py-bot", content="ping")
        for _ in range(2):
            seen = asyncio.Event()
            # It does not store the cursor, so it sees the same message again after the restart.
            task = asyncio.create_task(
                main(url, _signer("py-bot", 60), page["cursor"], lambda _cursor, seen=seen: seen.set())
            )
            async with asyncio.timeout(60):
                await seen.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        conversation = "p_" + "_".join(sorted(("py-bot", "py-carol")))
        found = await carol.ask(
            "query ($id: ID!) { messages(conversationId: $id) { edges { node { content } } } }", id=conversation
        )
        assert [edge["node"]["content"] for edge in found["messages"]["edges"]] == ["ping", "pong"]


async def test_the_bot_is_a_program_that_answers_what_it_missed(url: str, guide: ModuleType, tmp_path: Path) -> None:
    async with guide.Confab(url, _signer("py-pia", 60)) as pia, guide.Confab(url, _signer("py-pong", 60)) as bot:
        for user in (pia, bot):
            await user.ask("{ me { id } }")
        events = pia.events()
        assert (await anext(events))["__typename"] == "CaughtUp"
        (tmp_path / "bot.cursor").write_text([page async for page in bot.sessions()][-1]["cursor"])
        await pia.send(toUserId="py-pong", content="ping")
        environment = os.environ | {"TOKEN": await _signer("py-pong", 60)()}
        command = (sys.executable, str(GUIDE / "bot.py"), url)
        process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=environment)
        try:
            async with asyncio.timeout(60):
                async for event in events:
                    if event["__typename"] == "MessageCreated" and event["message"]["content"] == "pong":
                        break
        finally:
            process.terminate()
            await process.wait()
            await events.aclose()


async def test_gqls_reconnecting_session_ends_subscriptions_with_the_connection(url: str, guide: ModuleType) -> None:
    async with guide.Confab(url, _signer("py-dave", 60)) as dave:
        await dave.ask("{ me { id } }")
    init = {"Authorization": f"Bearer {await _signer('py-dave', 8)()}"}
    client = guide.Client(transport=guide.WebsocketsTransport(url=url.replace("http", "ws", 1), init_payload=init))
    # With an expired token it would try to connect for ever.
    async with asyncio.timeout(60):
        session = await client.connect_async(reconnecting=True)
        with pytest.raises(guide.TransportError):
            async for _ in session.subscribe(guide.GraphQLRequest(guide.EVENTS)):
                pass
        await client.close_async()
