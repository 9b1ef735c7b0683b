"""Fairness: a user with many operations waits behind users with few, over all transports together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schema.execution.engine import Engine
from server.overload import operation_queue
from server.overload.load_shedding import LOAD_SHEDDING_STATE, LoadShedding
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, Json
from tests.protocol.serving import PATIENCE, until
from tests.server.served_app import SEND, App, ServeApp, without_deadlines

HISTORY = '{ messages(conversationId: "p_alice_bob") { edges { node { seq } } } }'
TOO_MANY = {"code": "RATE_LIMITED", "retryable": True, "retryAfterMs": 1_000}


class HeldMutations:
    """Mutations that have begun, and wait until a test lets them continue."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.places = asyncio.Semaphore(0)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldMutations:
    found, execute = HeldMutations(), Engine.execute

    async def waiting(self: Engine, prepared: Any, request: GraphQLRequest, context: ConnectionContext) -> Json:
        if prepared.kind == "mutation":
            found.begun.append(context.caller.user_id)  # type: ignore[union-attr]
            await found.places.acquire()
        return await execute(self, prepared, request, context)

    monkeypatch.setattr(Engine, "execute", waiting)
    monkeypatch.setattr(operation_queue, "FREE_OPERATIONS", 1)
    return found


async def seqs(app: App) -> list[int]:
    history = (await app.data(HISTORY, "bob"))["messages"] or {"edges": []}
    return [edge["node"]["seq"] for edge in history["edges"]]


async def test_operations_beyond_a_users_share_wait_and_those_of_others_do_not(
    serve_app: ServeApp, held: HeldMutations
) -> None:
    async with serve_app(max_running_per_user=2, max_waiting_per_user=2) as app:
        await app.data("{ me { id } }", "bob")
        alice = await app.signed_in("alice")
        sends = [asyncio.create_task(app.ask(SEND, "alice")) for _ in range(2)]
        await until(lambda: held.begun == ["alice"] * 2)
        for id in ("third", "fourth"):
            await alice.subscribe(id, SEND)
        assert await alice.is_alive()
        for transport in ("application/json", "text/event-stream"):
            refused = await app.ask(SEND, "alice", accept=transport)
            assert '"RATE_LIMITED"' in refused.text and "retryAfterMs" in refused.text
        await alice.subscribe("fifth", SEND)
        answer = await alice.receive()
        assert (answer["id"], answer["type"], answer["payload"][0]["extensions"]) == ("fifth", "error", TOO_MANY)
        # Another user's operations are not behind them.
        assert await asyncio.wait_for(seqs(app), PATIENCE) == []
        other = asyncio.create_task(app.ask(SEND, "carol"))
        await until(lambda: held.begun == ["alice", "alice", "carol"])
        for _ in range(5):
            held.places.release()
        for task in (*sends, other):
            assert "errors" not in (await task).json()
        assert {(await alice.receive())["id"] for _ in range(4)} == {"third", "fourth"}
        assert await seqs(app) == [1, 2, 3, 4]


async def test_users_with_one_operation_each_are_served_while_the_limit_is_used_up(
    serve_app: ServeApp, held: HeldMutations
) -> None:
    async with serve_app(max_operations=3, max_running_per_user=3) as app:
        await app.data("{ me { id } }", "bob")
        sends = [asyncio.create_task(app.ask(SEND, "alice")) for _ in range(5)]
        await until(lambda: len(held.begun) == 3)
        shedding = app.served.server.lifespan.state[LOAD_SHEDDING_STATE]
        assert isinstance(shedding, LoadShedding) and not shedding.is_full
        assert await seqs(app) == []
        newcomer = await app.signed_in("bob")
        assert await newcomer.is_alive()
        for _ in range(5):
            held.places.release()
        for task in sends:
            assert "errors" not in (await task).json()
        assert await seqs(app) == [1, 2, 3, 4, 5]
        await until(lambda: not shedding.running)


async def test_a_wait_ends_at_the_operations_deadline_without_execution(
    serve_app: ServeApp, held: HeldMutations, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_app(max_running_per_user=1, operation_timeout_seconds=0.2) as app:
        with without_deadlines(monkeypatch):
            await app.data("{ me { id } }", "bob")
        answers = await asyncio.gather(*(app.ask(SEND, "alice") for _ in range(2)))
        assert [answer.json()["errors"][0]["extensions"]["code"] for answer in answers] == ["UNAVAILABLE"] * 2
        held.places.release()
        shedding = app.served.server.lifespan.state[LOAD_SHEDDING_STATE]
        await until(lambda: not shedding.running)
        assert held.begun == ["alice"]
        with without_deadlines(monkeypatch):
            assert await seqs(app) == [1]
