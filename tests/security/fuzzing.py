"""A fuzzer: several users with real state send random requests over HTTP and WebSockets, and no answer may be INTERNAL.

    python -m tests.security.fuzzing --seconds 300 [--seed 7]

starts databases and a server, prints the seed and the number of operations by outcome, and ends with status 1 if an
answer is not allowed. The state that an operation meets depends on earlier ones, so each problem is reported with its
request; the same seed finds it again if only one worker sends.
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
from tests.security.fuzzed_requests import HOSTILE_TEXTS, RandomRequests
from tests.server.tokens import SECRET, bearer

USERS = ["alice", "bob", "auth0|7", "dave", "user_{2}%é", "f@x.org"]
_ROLES = {"dave": "service"}
_CODES = {code.value for code in ErrorCode} - {"INTERNAL"}
_IMPLEMENTATION_WORDS = (
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
"""Words about the implementation, which no message to a client may contain."""

_STATUSES = {200, 202, 400, 401, 403, 404, 405, 406, 409, 413, 415, 429, 503}
_CLOSE_CODES = {4400, 4401, 4408, 4409, 4429, 1013, 1002, 1007, 1009}


@dataclass
class Findings:
    """Counts of operations, error codes and close codes, and the problems found."""

    operations: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    close_codes: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add_problem(self, description: str, request: Any, response_text: Any) -> None:
        """Record something that must not happen."""
        self.problems.append(
            f"{description}\n  asked: {json.dumps(request)[:3000]}\n  answered: {str(response_text)[:1500]}"
        )

    def check_response(self, request: Any, response: Any) -> None:
        """Check that a response is well formed, and that its errors belong to the contract and reveal nothing."""
        if not isinstance(response, dict) or not response.keys() & {"data", "errors"}:
            self.add_problem("no GraphQL response", request, response)
            return
        if not response.get("errors"):
            self.codes["none"] += 1
        for error in response.get("errors", ()):
            code = error.get("extensions", {}).get("code")
            self.codes[str(code)] += 1
            if code not in _CODES or not isinstance(error["extensions"].get("retryable"), bool):
                self.add_problem(f"code {code}", request, error)
            message = error["message"]
            revealed = [
                word
                for word in _IMPLEMENTATION_WORDS
                if word in message and word not in json.dumps(request, ensure_ascii=False)
            ]
            if revealed:
                self.add_problem(f"a message that tells {revealed}", request, error)


@dataclass
class Fuzzer:
    """Users who send random requests to one server."""

    url: str
    rng: random.Random
    findings: Findings = field(default_factory=Findings)

    def __post_init__(self) -> None:
        self.requests = RandomRequests(self.rng, USERS)

    async def _create_state(self, client: httpx.AsyncClient) -> None:
        """Create users, groups, and conversations inside and outside a subBiz."""
        for user in USERS:
            await self._execute(client, user, "{ me { id } }")
        for owner, *others in ([USERS[0], *USERS[1:3]], [USERS[1], *USERS[2:]], [USERS[2], USERS[0], USERS[4]]):
            members = json.dumps(others)
            await self._execute(
                client, owner, f'mutation {{ createGroup(input: {{name: "G", memberIds: {members}}}) {{ id }} }}'
            )
        selection = "{ message { id conversationId } session { id } }"
        for number, user in enumerate(USERS[:4]):
            for to in (f'toUserId: "{USERS[number + 1]}"', f'toUserId: "{USERS[number + 1]}", subBiz: "shop"'):
                await self._execute(
                    client, user, f'mutation {{ sendMessage(input: {{{to}, content: "hello"}}) {selection} }}'
                )

    async def _execute(self, client: httpx.AsyncClient, user: str, query: str) -> None:
        token = bearer(sub=user, role=_ROLES.get(user, "user"), exp=time.time() + 600)
        answer = (await client.post("/graphql", json={"query": query}, headers={"authorization": token})).json()
        self.requests.learn(answer["data"])

    def _headers(self) -> dict[str, str]:
        user = self.rng.choice([*USERS, *USERS[:3], None])
        if user is None:
            return {}
        return {"authorization": bearer(sub=user, role=_ROLES.get(user, "user"), exp=time.time() + 600)}

    async def over_http(self, client: httpx.AsyncClient, count: int) -> None:
        """Send random requests one after another."""
        for _ in range(count):
            kind = self.rng.choice(("query", "mutation", "mutation"))
            body, headers = self.requests.request(kind), self._headers() | {"content-type": "application/json"}
            headers["accept"] = self.rng.choice(("application/graphql-response+json", "application/json", "*/*"))
            method = "POST"
            if self.rng.random() < 0.04:
                self._damage_header(headers)
            if kind == "query" and self.rng.random() < 0.1 and len(json.dumps(body)) < 8_000:
                method = "GET"
            content = json.dumps(body).encode()
            if self.rng.random() < 0.02:
                position = self.rng.randrange(len(content))
                content = content[:position] + self.rng.randbytes(3) + content[position + 1 :]
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
                    # The server closes connections that were idle for a while. This request may have met that.
                    self.findings.codes["no answer"] += 1
                    continue
                self.findings.add_problem("no answer", [method, headers, body], repr(error))
                continue
            self.findings.operations[f"http {kind}"] += 1
            if answer.status_code not in _STATUSES:
                self.findings.add_problem(f"status {answer.status_code}", body, answer.text)
            elif answer.headers.get("content-type", "").startswith("application/"):
                response = answer.json()
                self.findings.check_response(body, response)
                self.requests.learn(response.get("data"))

    def _damage_header(self, headers: dict[str, str]) -> None:
        texts_allowed = [
            text
            for text in HOSTILE_TEXTS
            if text.isascii() and text.isprintable() and text == text.strip() and 0 < len(text) < 5_000
        ]
        name = self.rng.choice(
            (
                "accept",
                "content-type",
                "authorization",
                "x-request-id",
                "content-encoding",
                "x-graphql-event-stream-token",
            )
        )
        headers[name] = (
            self.rng.choice(texts_allowed) if name != "authorization" else "Bearer " + self.rng.choice(texts_allowed)
        )

    async def over_socket(self, count: int) -> None:
        """Open a WebSocket and start random operations, some concurrently. Sometimes end with an invalid frame."""
        try:
            opened = await open_socket(self.url.replace("http", "ws") + "/graphql")
        except InvalidStatus as refused:
            # A server with too much to do refuses new connections.
            self.findings.codes[f"handshake {refused.response.status_code}"] += 1
            if refused.response.status_code != 503:
                self.findings.add_problem("no handshake", None, refused)
            return
        async with opened as socket:
            headers = self._headers()
            payload = {"Authorization": headers["authorization"]} if headers else None
            await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
            request: dict[str, Any] = {}
            reader = asyncio.create_task(self._read(socket, request))
            try:
                for number in range(count):
                    kind = self.rng.choices(("query", "mutation", "subscription"), (2, 3, 2))[0]
                    id = f"{number}"
                    request[id] = self.requests.request(kind)
                    await socket.send(json.dumps({"id": id, "type": "subscribe", "payload": request[id]}))
                    self.findings.operations[f"ws {kind}"] += 1
                    if self.rng.random() < 0.3 and number > 3:
                        await socket.send(json.dumps({"id": f"{self.rng.randrange(number)}", "type": "complete"}))
                    if not number % 4:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)
                if self.rng.random() < 0.3:
                    frame = {
                        "id": self.rng.choice(HOSTILE_TEXTS),
                        "type": self.rng.choice(("subscribe", "complete", "ping", "x", "", "connection_init")),
                        "payload": self.rng.choice((None, 1, "x", [], {"query": 1})),
                    }
                    request["last"] = frame
                    await socket.send(self.rng.choice((json.dumps(frame), "nonsense", b"\xff", "[]", "{" * 2_000)))
                    await asyncio.sleep(0.05)
            except ConnectionClosed:
                pass
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    async def _read(self, socket: Any, request: dict[str, Any]) -> None:
        try:
            while True:
                frame = json.loads(await socket.recv())
                if frame["type"] == "next":
                    self.findings.check_response(request.get(frame["id"]), frame["payload"])
                    self.requests.learn(frame["payload"].get("data"))
                elif frame["type"] == "error":
                    self.findings.check_response(request.get(frame["id"]), {"errors": frame["payload"]})
        except ConnectionClosed as end:
            code = end.rcvd.code if end.rcvd is not None else 1006
            self.findings.close_codes[code] += 1
            if code not in _CLOSE_CODES:
                self.findings.add_problem(f"closed with {code}", list(request.values())[-3:], end)

    async def run(self, *, operations: int | None = None, seconds: float | None = None, workers: int = 4) -> None:
        """Send random operations, up to a number or for some time."""
        deadline = time.monotonic() + seconds if seconds is not None else None

        def is_over() -> bool:
            if deadline is not None and time.monotonic() > deadline:
                return True
            return operations is not None and self.findings.operations.total() >= operations

        async def work(client: httpx.AsyncClient) -> None:
            while not is_over():
                await self.over_http(client, 12)
                if not is_over():
                    await self.over_socket(8)

        with capture_logs() as log_lines:
            async with httpx.AsyncClient(base_url=self.url, timeout=30, trust_env=False) as client:
                await self._create_state(client)
                await asyncio.gather(*(work(client) for _ in range(workers)))
        if self.findings.codes["no answer"] > 3 + self.findings.operations.total() // 1_000:
            self.findings.problems.append(f"{self.findings.codes['no answer']} requests were not answered")
        for line in log_lines:
            if line["log_level"] in ("error", "critical"):
                self.findings.problems.append(f"logged: {line}")

    def report(self) -> str:
        """Describe what was sent and how it was answered."""
        findings_ = self.findings
        return (
            f"{findings_.operations.total():,} operations {dict(findings_.operations)}\n"
            f"codes {dict(findings_.codes.most_common())}\n"
            f"sockets closed by the server {dict(findings_.close_codes)}; {len(findings_.problems)} problems"
        )


@asynccontextmanager
async def fuzzer(settings: Settings, seed: int) -> AsyncIterator[Fuzzer]:
    """A fuzzer in front of a server with these settings."""
    async with serving(_config(create_app(settings), settings)) as served:
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
            async with fuzzer(settings, seed) as fuzzer_:
                await fuzzer_.run(seconds=seconds, workers=workers)
            print(fuzzer_.report())
            for add_problem in fuzzer_.findings.problems[:40]:
                print(add_problem)
            return 1 if fuzzer_.findings.problems else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Sends at random, and looks for what should not be answered.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--workers", type=int, default=4)
    arguments = parser.parse_args()
    sys.exit(asyncio.run(_main(arguments.seconds, arguments.seed, arguments.workers)))
