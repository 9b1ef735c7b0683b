"""What the client guide shows works against a real server, and it shows nothing else."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import jwt
import pytest
from graphql import parse, validate
from pydantic import SecretStr

from resolvers.errors import ConfabError
from schema.root import SCHEMA
from server.settings import DEVELOPMENT_SECRET as SECRET
from server.settings import Settings
from tests.clients.programs import GUIDE, ROOT, Ran, Workshop, missing
from tests.server.served_app import serving_app

PROGRAMS = ("signing_in", "socket", "plain", "apollo", "urql", "relay")
PYTHON = "gql_client.py"
TEXT = (ROOT / "docs" / "clients.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)

_MISSING = missing()
needs_node = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))

Run = Callable[[str], Awaitable[Ran]]


@pytest.fixture(scope="module")
async def url(module_settings: Settings) -> AsyncIterator[str]:
    """A server's address."""
    settings = module_settings.model_copy(update={"jwt_secret": SecretStr(SECRET), "development": True})
    async with serving_app(settings) as app:
        yield f"http://127.0.0.1:{app.served.port}/graphql"


@pytest.fixture(scope="module")
def run(url: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program; once, for all who ask."""
    workshop = Workshop(tmp_path_factory.mktemp("guide"))
    tasks: dict[str, asyncio.Task[Ran]] = {}

    def start(program: str) -> asyncio.Task[Ran]:
        if program not in tasks:
            tasks[program] = asyncio.create_task(workshop.run(program, url, SECRET))
        return tasks[program]

    return start


@needs_node
@pytest.mark.parametrize("program", PROGRAMS)
async def test_what_the_guide_shows_works(run: Run, program: str) -> None:
    ran = await run(program)
    assert ran.status == 0, ran.output
    assert "ok " in ran.output


@needs_node
async def test_what_it_warns_of_is_so(run: Run) -> None:
    ran = await run("traps")
    assert ran.status == 0, ran.output
    promised = set(re.findall(r"<!-- trap: (.+?) -->", TEXT))
    assert promised == set(re.findall(r"^ok (.+)$", ran.output, re.MULTILINE))


@needs_node
async def test_all_code_it_shows_is_word_for_word_of_files_that_were_run(run: Run) -> None:
    loaded = frozenset[str]().union(*[(await run(program)).loaded for program in PROGRAMS])
    texts = [(GUIDE / name).read_text() for name in loaded if (GUIDE / name).is_file()]
    # Its build makes one of the other.
    assert "relay/Chat.mjs" in loaded
    texts.append((GUIDE / "relay" / "Chat.jsx").read_text())
    shown = [text for kind, text in BLOCKS if kind in ("js", "jsx")]
    assert shown
    for text in shown:
        assert any(text in whole for whole in texts), f"nobody ran this:\n{text}"


def test_its_other_code_is_of_files_too() -> None:
    kinds = {kind for kind, _ in BLOCKS}
    assert kinds <= {"js", "jsx", "python", "json", "sh", "ts", "graphql"}
    files = {"python": GUIDE / PYTHON, "json": GUIDE / "relay" / "relay.config.json"}
    for kind, text in BLOCKS:
        if kind in files:
            assert text in files[kind].read_text(), f"not in {files[kind].name}:\n{text}"
        if kind == "graphql":
            assert validate(SCHEMA._schema, parse(text)) == []


def test_what_it_installs_is_what_was_tried() -> None:
    tried = json.loads((ROOT / "bench" / "package.json").read_text())["dependencies"]
    installed = re.findall(r"npm install (?:--save-dev )?(.+)", TEXT)
    assert installed
    assert {name for line in installed for name in line.split()} <= set(tried)


def test_each_error_code_is_explained_as_the_server_uses_it() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (yes|no) \|", TEXT, re.MULTILINE)
    leaves = {leaf.code: "yes" if leaf.retryable else "no" for leaf in ConfabError.__subclasses__()}
    assert dict(rows) == leaves | {"INTERNAL": "no"}
    assert len(rows) == len(leaves) + 1


def test_what_it_points_to_is_there() -> None:
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", TEXT):
        assert (ROOT / "docs" / target).exists(), target


def _signer(user: str, seconds: float) -> Callable[[], Awaitable[str]]:
    async def token() -> str:
        return jwt.encode({"sub": user, "exp": time.time() + seconds}, SECRET, algorithm="HS256")

    return token


async def test_gql_follows_what_happens_and_sends_once(url: str) -> None:
    pytest.importorskip("gql", reason="needs gql")
    spec = importlib.util.spec_from_file_location("gql_client", GUIDE / PYTHON)
    assert spec is not None and spec.loader is not None
    guide = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guide)
    # The first token ends while it listens: it is renewed, and what follows is on the same connection.
    async with guide.Confab(url, _signer("py-alice", 2)) as alice, guide.Confab(url, _signer("py-bob", 60)) as bob:
        await alice.ask("{ me { id } }")
        await bob.send(toUserId="py-alice", content="first")
        (page,) = [page async for page in alice.sessions()]
        assert [row["unreadCount"] for row in page["sessions"]] == [1]
        events = alice.events(page["cursor"])
        assert (await anext(events))["__typename"] == "CaughtUp"
        for content in ("second", "third"):
            await bob.send(toUserId="py-alice", content=content)
            assert (await anext(events))["message"]["content"] == content
            await asyncio.sleep(1.1)
        await events.aclose()
        # Where it was left is where it goes on.
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
