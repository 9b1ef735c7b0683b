"""A killed server and a lost Redis delay the index. Until it has everything, searches say that they are incomplete."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from server.embedded import EmbeddedServers
from tests.invariants.conftest import disposable_servers
from tests.invariants.search.searching import SEARCH
from tests.processes import ServerProcess, serving_processes

SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"
CALLERS = 8
PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def databases() -> Iterator[EmbeddedServers]:
    with disposable_servers() as servers:
        yield servers


class Client:
    """Requests of one user over HTTP."""

    def __init__(self, server: ServerProcess, user: str) -> None:
        self._client = server.client(user, timeout=30.0)

    async def run(self, document: str, /, **variables: Any) -> Any:
        """Return the answer's data. Raises httpx.HTTPError if the server dies, ValueError for an error."""
        response = await self._client.post("/graphql", json={"query": document, "variables": variables})
        answer = response.json()
        if "errors" in answer:
            raise ValueError(answer["errors"])
        return answer["data"]

    async def search(self, query: str) -> tuple[set[str], bool]:
        """Return the ids of all results, and whether the search was complete."""
        found: set[str] = set()
        is_complete, after = True, None
        while True:
            page = (await self.run(SEARCH, query=query, first=100, after=after))["searchMessages"]
            found |= {edge["node"]["id"] for edge in page["edges"]}
            is_complete = is_complete and page["complete"]
            after = page["pageInfo"]["endCursor"]
            if not page["pageInfo"]["hasNextPage"]:
                return found, is_complete

    async def close(self) -> None:
        await self._client.aclose()


async def send_until_it_dies(client: Client, peer: str, word: str, number: int, acknowledged: set[str]) -> None:
    """Send messages with a word, one after the other, until the server is gone."""
    while True:
        text = f"{word} {number} {len(acknowledged)}"
        try:
            sent = await client.run(SEND, input={"toUserId": peer, "content": text})
        except httpx.HTTPError:
            return
        except ValueError:
            # A server on a busy machine may refuse a request.
            await asyncio.sleep(0.05)
            continue
        acknowledged.add(sent["sendMessage"]["message"]["id"])


async def send(client: Client, text: str) -> str:
    """Send a message to ben with its text as key, until it is acknowledged. Return its id."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                sent = await client.run(SEND, input={"toUserId": "ben", "content": text, "idempotencyKey": text})
            except ValueError:
                # The server refuses requests while it notices that Redis was flushed.
                await asyncio.sleep(0.05)
                continue
            message: str = sent["sendMessage"]["message"]["id"]
            return message


async def check_until_complete(clients: list[Client], word: str, acknowledged: set[str]) -> int:
    """Search until each server finds everything. A complete search must find everything at once."""
    deadline, searches, waiting = time.monotonic() + PATIENCE_SECONDS, 0, list(clients)
    while waiting:
        assert time.monotonic() < deadline, f"still incomplete after {searches} searches"
        try:
            found, is_complete = await waiting[0].search(word)
        except ValueError:
            # Redis is away for a moment, or loses data during the search.
            await asyncio.sleep(0.05)
            continue
        searches += 1
        missing = acknowledged - found
        assert not (is_complete and missing), f"complete without {len(missing)} of {len(acknowledged)} messages"
        if is_complete:
            waiting.pop(0)
        else:
            await asyncio.sleep(0.02)
    return searches


@pytest.mark.parametrize(
    ("flushed", "seconds"),
    [
        pytest.param(True, 0.5, id="Redis flushed"),
        pytest.param(False, 0.5, marks=pytest.mark.long, id="Redis kept"),
        pytest.param(True, 3.0, marks=pytest.mark.long, id="Redis flushed later"),
        pytest.param(True, 0.1, marks=pytest.mark.long, id="Redis flushed early"),
    ],
)
async def test_what_a_killed_server_acknowledged_is_found_or_known_to_be_missing(
    databases: EmbeddedServers, tmp_path: Path, flushed: bool, seconds: float
) -> None:
    database, word = f"crash{int(flushed)}{int(seconds * 10)}", "needle"
    async with serving_processes(databases, 2, tmp_path, database) as (dying, living):
        senders = [Client(dying, f"sender{number}") for number in range(CALLERS)]
        readers = [Client(living, f"reader{number}") for number in range(CALLERS)]
        for reader in readers:
            await reader.run("{ me { id } }")
        acknowledged: list[set[str]] = [set() for _ in senders]
        sending = [
            asyncio.create_task(send_until_it_dies(sender, f"reader{n}", word, n, acknowledged[n]))
            for n, sender in enumerate(senders)
        ]
        await asyncio.sleep(seconds)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not all(acknowledged):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        dying.process.kill()
        await asyncio.gather(*sending)
        if flushed:
            with Redis.from_url(databases.redis_url) as redis:
                redis.flushall()
        searches = [
            check_until_complete([reader], word, sent) for reader, sent in zip(readers, acknowledged, strict=True)
        ]
        counts = await asyncio.gather(*searches)
        for client in (*senders, *readers):
            await client.close()
    print(f"\n{sum(map(len, acknowledged))} messages acknowledged, {sum(counts)} searches, missing 0")


async def test_a_flushed_redis_never_makes_a_search_wrongly_complete(
    databases: EmbeddedServers, tmp_path: Path
) -> None:
    async with serving_processes(databases, 1, tmp_path, "flushed") as (server,):
        sender, reader = Client(server, "anna"), Client(server, "ben")
        await reader.run("{ me { id } }")
        acknowledged: set[str] = set()
        for number in range(3):
            for turn in range(10):
                acknowledged.add(await send(sender, f"needle {number} {turn}"))
            with Redis.from_url(databases.redis_url) as redis:
                redis.flushall()
            await check_until_complete([reader], "needle", acknowledged)
        for client in (sender, reader):
            await client.close()
