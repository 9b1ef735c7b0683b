"""The fuzzer: several users with real state send whatever comes to mind, over HTTP and WebSockets, and no answer is INTERNAL.

    python -m tests.security.fuzzing --seconds 300 [--seed 7]

starts databases and a server of its own, prints the seed and how many operations came to what, and ends with status 1 if anything
was answered that should not have been. What state an operation met depends on those before it, so a finding comes with what was sent,
and the same seed finds it again where one worker sends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from structlog.testing import capture_logs
from websockets.exceptions import ConnectionClosed, InvalidStatus

from schema.base.errors import ErrorCode
from server.app import create_app
from server.cli.serve import _config
from server.embedded import EmbeddedServers
from server.settings import UNLIMITED, Settings, load_settings
from tests.protocol.peer import open_socket
from tests.protocol.serving import serving
from tests.security.fuzzed_requests import NASTY, Requests
from tests.server.tokens import SECRET, bearer

USERS = ["alice", "bob", "carol", "dave", "erin.x", "f@x.org"]
_ROLES = {"dave": "service"}
_CODES = {code.value for code in ErrorCode} - {"INTERNAL"}
_INSIDE = (
    "Traceback",
    "pymongo",
    "redis",
    "Redis",
    "MongoDB",
    "NoneType",
    "has no attribute",
    "/store/",
    ".py",
    "$set",
    "EVALSHA",
    "E11000",
    "{u:",
    "{p:",
)
"""What no message to a client holds: words of what is inside."""

_STATUSES = {200, 202, 400, 401, 403, 404, 405, 406, 409, 413, 415, 429, 503}
_CLOSINGS = {4400, 4401, 4408, 4409, 4429, 1013, 1002, 1007, 1009}


@dataclass
class Findings:
    """What came of it."""

    operations: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    closings: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def problem(self, what: str, asked: Any, answered: Any) -> None:
        """Something that should not have been."""
        self.problems.append(f"{what}\n  asked: {json.dumps(asked)[:3000]}\n  answered: {str(answered)[:1500]}")

    def judge(self, asked: Any, response: Any) -> None:
        """A GraphQL response is well formed, its errors are of the contract, and tell nothing of the inside."""
        if not isinstance(response, dict) or not response.keys() & {"data", "errors"}:
            self.problem("no GraphQL response", asked, response)
            return
        if not response.get("errors"):
            self.codes["none"] += 1
        for error in response.get("errors", ()):
            code = error.get("extensions", {}).get("code")
            self.codes[str(code)] += 1
            if code not in _CODES or not isinstance(error["extensions"].get("retryable"), bool):
                self.problem(f"code {code}", asked, error)
            told = error["message"]
            inside = [word for word in _INSIDE if word in told and word not in json.dumps(asked, ensure_ascii=False)]
            if inside:
                self.problem(f"a message that tells {inside}", asked, error)


@dataclass
class Fuzzer:
    """Users who send at random to one server."""

    url: str
    chance: random.Random
    findings: Findings = field(default_factory=Findings)

    def __post_init__(self) -> None:
        self.requests = Requests(self.chance, USERS)

    async def _begin(self, client: httpx.AsyncClient) -> None:
        """Users, who talk in private, in groups and within a subBiz."""
        for user in USERS:
            await self._ask(client, user, "{ me { id } }")
        for owner, *others in ([USERS[0], *USERS[1:3]], [USERS[1], *USERS[2:]], [USERS[2], USERS[0], USERS[4]]):
            members = json.dumps(others)
            await self._ask(
                client, owner, f'mutation {{ createGroup(input: {{name: "G", memberIds: {members}}}) {{ id }} }}'
            )
        sending = "{ message { id conversationId } session { id } }"
        for number, user in enumerate(USERS[:4]):
            for to in (f'toUserId: "{USERS[number + 1]}"', f'toUserId: "{USERS[number + 1]}", subBiz: "shop"'):
                await self._ask(
                    client, user, f'mutation {{ sendMessage(input: {{{to}, content: "hello"}}) {sending} }}'
                )

    async def _ask(self, client: httpx.AsyncClient, user: str, query: str) -> None:
        token = bearer(sub=user, role=_ROLES.get(user, "user"), exp=time.time() + 600)
        answer = (await client.post("/graphql", json={"query": query}, headers={"authorization": token})).json()
        self.requests.learn(answer["data"])

    def _headers(self) -> dict[str, str]:
        user = self.chance.choice([*USERS, *USERS[:3], None])
        if user is None:
            return {}
        return {"authorization": bearer(sub=user, role=_ROLES.get(user, "user"), exp=time.time() + 600)}

    async def over_http(self, client: httpx.AsyncClient, count: int) -> None:
        """So many requests, one after the other."""
        for _ in range(count):
            kind = self.chance.choice(("query", "mutation", "mutation"))
            body, headers = self.requests.request(kind), self._headers() | {"content-type": "application/json"}
            headers["accept"] = self.chance.choice(("application/graphql-response+json", "application/json", "*/*"))
            method = "POST"
            if self.chance.random() < 0.04:
                self._oddly(headers)
            if kind == "query" and self.chance.random() < 0.1 and len(json.dumps(body)) < 8_000:
                method = "GET"
            content = json.dumps(body).encode()
            if self.chance.random() < 0.02:
                at = self.chance.randrange(len(content))
                content = content[:at] + self.chance.randbytes(3) + content[at + 1 :]
            try:
                if method == "GET":
                    texts = {
                        name: value if isinstance(value, str) else json.dumps(value) for name, value in body.items()
                    }
                    texts = {name: value.encode("utf-8", "replace").decode() for name, value in texts.items()}
                    answer = await client.get("/graphql", params=texts, headers=headers)
                else:
                    answer = await client.post("/graphql", content=content, headers=headers)
            except httpx.TransportError as error:
                if isinstance(error, httpx.ReadError | httpx.RemoteProtocolError):
                    # The server ends connections that were idle for a while, and this may have met it.
                    self.findings.codes["no answer"] += 1
                    continue
                self.findings.problem("no answer", [method, headers, body], repr(error))
                continue
            self.findings.operations[f"http {kind}"] += 1
            if answer.status_code not in _STATUSES:
                self.findings.problem(f"status {answer.status_code}", body, answer.text)
            elif answer.headers.get("content-type", "").startswith("application/"):
                response = answer.json()
                self.findings.judge(body, response)
                self.requests.learn(response.get("data"))

    def _oddly(self, headers: dict[str, str]) -> None:
        odd = [
            text
            for text in NASTY
            if text.isascii() and text.isprintable() and text == text.strip() and 0 < len(text) < 5_000
        ]
        name = self.chance.choice(
            (
                "accept",
                "content-type",
                "authorization",
                "x-request-id",
                "content-encoding",
                "x-graphql-event-stream-token",
            )
        )
        headers[name] = self.chance.choice(odd) if name != "authorization" else "Bearer " + self.chance.choice(odd)

    async def over_socket(self, count: int) -> None:
        """A WebSocket on which so many operations begin, some at once, subscriptions among them; at last perhaps nonsense."""
        try:
            opened = await open_socket(self.url.replace("http", "ws") + "/graphql")
        except InvalidStatus as refused:
            # One that has enough to do already takes no more.
            self.findings.codes[f"handshake {refused.response.status_code}"] += 1
            if refused.response.status_code != 503:
                self.findings.problem("no handshake", None, refused)
            return
        async with opened as socket:
            headers = self._headers()
            payload = {"Authorization": headers["authorization"]} if headers else None
            await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
            asked: dict[str, Any] = {}
            reader = asyncio.create_task(self._read(socket, asked))
            try:
                for number in range(count):
                    kind = self.chance.choices(("query", "mutation", "subscription"), (2, 3, 2))[0]
                    id = f"{number}"
                    asked[id] = self.requests.request(kind)
                    await socket.send(json.dumps({"id": id, "type": "subscribe", "payload": asked[id]}))
                    self.findings.operations[f"ws {kind}"] += 1
                    if self.chance.random() < 0.3 and number > 3:
                        await socket.send(json.dumps({"id": f"{self.chance.randrange(number)}", "type": "complete"}))
                    if not number % 4:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)
                if self.chance.random() < 0.3:
                    frame = {"id": self.chance.choice(NASTY), "type": self.chance.choice(("subscribe", "complete", "ping", "x", "", "connection_init")), "payload": self.chance.choice((None, 1, "x", [], {"query": 1}))}  # fmt: skip
                    asked["last"] = frame
                    await socket.send(self.chance.choice((json.dumps(frame), "nonsense", b"\xff", "[]", "{" * 2_000)))
                    await asyncio.sleep(0.05)
            except ConnectionClosed:
                pass
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    async def _read(self, socket: Any, asked: dict[str, Any]) -> None:
        try:
            while True:
                frame = json.loads(await socket.recv())
                if frame["type"] == "next":
                    self.findings.judge(asked.get(frame["id"]), frame["payload"])
                    self.requests.learn(frame["payload"].get("data"))
                elif frame["type"] == "error":
                    self.findings.judge(asked.get(frame["id"]), {"errors": frame["payload"]})
        except ConnectionClosed as end:
            code = end.rcvd.code if end.rcvd is not None else 1006
            self.findings.closings[code] += 1
            if code not in _CLOSINGS:
                self.findings.problem(f"closed with {code}", list(asked.values())[-3:], end)

    async def run(self, *, operations: int | None = None, seconds: float | None = None, workers: int = 4) -> None:
        """Sends so many operations, or for so long."""
        until = time.monotonic() + seconds if seconds is not None else None

        def is_over() -> bool:
            if until is not None and time.monotonic() > until:
                return True
            return operations is not None and self.findings.operations.total() >= operations

        async def work(client: httpx.AsyncClient) -> None:
            while not is_over():
                await self.over_http(client, 12)
                if not is_over():
                    await self.over_socket(8)

        with capture_logs() as logged:
            async with httpx.AsyncClient(base_url=self.url, timeout=30, trust_env=False) as client:
                await self._begin(client)
                await asyncio.gather(*(work(client) for _ in range(workers)))
        if self.findings.codes["no answer"] > 3 + self.findings.operations.total() // 1_000:
            self.findings.problems.append(f"{self.findings.codes['no answer']} requests were not answered")
        for line in logged:
            if line["log_level"] in ("error", "critical"):
                self.findings.problems.append(f"logged: {line}")

    def report(self) -> str:
        """What was sent, and what came of it."""
        found = self.findings
        return (
            f"{found.operations.total():,} operations {dict(found.operations)}\ncodes {dict(found.codes.most_common())}\n"
            f"sockets closed by the server {dict(found.closings)}; {len(found.problems)} problems"
        )


@asynccontextmanager
async def fuzzer(settings: Settings, seed: int) -> AsyncIterator[Fuzzer]:
    """In front of a server with these settings."""
    async with serving(_config(create_app(settings), settings, 1)) as served:
        yield Fuzzer(f"http://127.0.0.1:{served.port}", random.Random(seed))


async def _main(seconds: float, seed: int, workers: int) -> int:
    folder = Path(tempfile.mkdtemp(prefix="confab-fuzz-"))
    try:
        with EmbeddedServers(folder) as servers:
            settings = load_settings(
                mongo_url=servers.mongo_url,
                redis_url=servers.redis_url,
                jwt_secret=SECRET,
                **UNLIMITED,
                introspection=True,
            )
            print(f"seed {seed}", flush=True)
            async with fuzzer(settings, seed) as made:
                await made.run(seconds=seconds, workers=workers)
            print(made.report())
            for problem in made.findings.problems[:40]:
                print(problem)
            return 1 if made.findings.problems else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Sends at random, and looks for what should not be answered.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--workers", type=int, default=4)
    given = parser.parse_args()
    sys.exit(asyncio.run(_main(given.seconds, given.seed, given.workers)))
