"""Clients that do not read their answers occupy little memory, and keep nobody else out."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from schema.execution.engine import Engine
from server.http.client_limits import CLIENT_LIMITS_STATE
from server.sse.operations import SingleResponseStream
from subscriptions.realtime.unsent_answers import LARGE_BYTES, UnsentAnswers
from tests.protocol.serving import until
from tests.server.served_app import App, ServeApp
from tests.server.tokens import bearer

ANSWER_BYTES = 8_000_000
LONG = "query long { me { id } }"
QUERY = json.dumps({"query": LONG}).encode()


@pytest.fixture
async def app(serve_app: ServeApp, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    """Return the application. LONG has an answer that is larger than the buffers of the kernel."""
    execute = Engine.execute

    async def answer(self: Engine, prepared: Any, request: Any, context: Any) -> Any:
        if request.query == LONG:
            return {"data": {"me": {"id": "x" * ANSWER_BYTES}}}
        return await execute(self, prepared, request, context)

    monkeypatch.setattr(Engine, "execute", answer)
    async with serve_app(max_unsent_bytes_per_user=1_000_000, sse_max_streams=10) as served:
        yield served


def unsent_of(app: App) -> UnsentAnswers:
    found: UnsentAnswers = app.served.server.lifespan.state[CLIENT_LIMITS_STATE].unsent
    return found


async def ask_and_read_nothing(app: App, user: str, sockets: AsyncExitStack) -> socket.socket:
    client = sockets.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", app.served.port))
    head = (
        f"POST /graphql HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nauthorization: {bearer(sub=user)}\r\n"
    )
    await loop.sock_sendall(client, head.encode() + b"content-length: %d\r\n\r\n%b" % (len(QUERY), QUERY))
    return client


async def test_a_user_who_does_not_read_is_refused_until_the_answers_have_left(app: App) -> None:
    unsent = unsent_of(app)
    for user in ("alice", "bob"):
        await app.data("{ me { id } }", user)
    async with AsyncExitStack() as sockets, asyncio.timeout(30):
        client = await ask_and_read_nothing(app, "alice", sockets)
        await until(lambda: unsent.total)
        accept = {"accept": "application/graphql-response+json"}
        for query in (
            "{ me { id } }",
            'mutation { sendMessage(input: {toUserId: "bob", content: "a"}) { message { id } } }',
        ):
            refused = await app.ask(query, "alice", **accept)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json()["errors"][0]["extensions"] == {
                "code": "RATE_LIMITED",
                "retryable": True,
                "retryAfterMs": 1000,
            }
        assert await app.data("{ me { id } }", "bob") == {"me": {"id": "bob"}}
        client.close()
        await until(lambda: not unsent.total)
        assert await app.data("{ sessions { totalUnread } }", "alice")


async def test_answers_that_were_executed_together_are_bounded_too(app: App) -> None:
    await app.data("{ me { id } }", "alice")
    async with AsyncExitStack() as sockets, asyncio.timeout(30):
        clients = [await ask_and_read_nothing(app, "alice", sockets) for _ in range(10)]
        await until(lambda: unsent_of(app).total)
        loop = asyncio.get_running_loop()
        starts = await asyncio.gather(*(loop.sock_recv(client, 2_000) for client in clients))
        assert sorted(b"RATE_LIMITED" in start for start in starts) == [False, *[True] * 9]
        assert unsent_of(app).total <= ANSWER_BYTES + 1_000


async def test_a_client_that_reads_gets_all_its_long_answers(app: App) -> None:
    await app.data("{ me { id } }", "alice")
    for _ in range(3):
        assert len((await app.ask(LONG, "alice")).content) > ANSWER_BYTES
    await until(lambda: not unsent_of(app).total)


async def test_waiting_answers_of_event_streams_are_bounded() -> None:
    unsent = UnsentAnswers(3 * LARGE_BYTES)
    loop = asyncio.get_running_loop()
    streams = []
    for _ in range(3):
        response: asyncio.Future[Any] = loop.create_future()
        streams.append(SingleResponseStream(response, lambda: None))
        streams[-1].count_in(unsent, "alice")
        response.set_result({"data": "x" * 2 * LARGE_BYTES})
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert unsent.total < 3 * LARGE_BYTES
    answers = [json.loads(stream.take() or b"") for stream in streams]
    assert ["data" in answer for answer in answers] == [True, False, False]
    assert answers[1]["errors"][0]["extensions"]["code"] == "RATE_LIMITED"
    assert not unsent.total


class Client:
    """Notes when its bytes are dropped."""

    is_dropped = False

    def drop(self) -> None:
        self.is_dropped = True


def test_the_bytes_that_wait_for_longest_are_dropped_first() -> None:
    unsent = UnsentAnswers(100, 250)
    clients = [Client() for _ in range(6)]
    users = ("alice", "alice", "bob", None, None, "carol")
    held = [unsent.hold(user, 60, client.drop) for user, client in zip(users, clients, strict=True)]
    # One for the limit of alice, one for the limit of the process.
    assert [client.is_dropped for client in clients] == [True, True, False, False, False, False]
    assert unsent.total == 240
    assert unsent.has_room("alice", 1_000)
    assert unsent.has_room("bob", 40) and not unsent.has_room("bob", 41)
    for each in (*held, None, held[3]):
        unsent.release(each)
    assert unsent.total == 0 and unsent.has_room("bob", 101)


def test_one_long_answer_is_not_dropped() -> None:
    unsent, client = UnsentAnswers(100, 200), Client()
    unsent.hold("alice", 1_000, client.drop)
    assert not client.is_dropped
    assert not unsent.has_room("alice")
