"""Users who are banned from the deployment: tokens are refused and connections end, on all servers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from server.services import open_services
from server.settings import Settings
from store.base.ids import UserId
from store.messages.outbox.outbox_store import OutboxStore
from store.moderation.ban import Ban
from tests.conftest import send_to_redis
from tests.protocol.serving import PATIENCE, until
from tests.server.test_revocation import ME, Server, served, token
from tests.server.tokens import SECRET, bearer

BANNED = (4403, "Banned")
ALICE = UserId("alice")


def admin() -> str:
    return bearer(sub="boss", role="admin", exp=time.time() + 600, iat=time.time() - 10)


async def call(server: Server, authorization: str, query: str, act_as: str | None = None, accept: str = "") -> Any:
    headers = {"authorization": authorization}
    if act_as is not None:
        headers["confab-act-as"] = act_as
    if accept:
        headers["accept"] = accept
    return await server.http.post("/graphql", json={"query": query}, headers=headers)


async def code(server: Server, authorization: str, query: str = ME, act_as: str | None = None) -> str | None:
    answer = (await call(server, authorization, query, act_as)).json()
    return answer["errors"][0]["extensions"]["code"] if "errors" in answer else None


async def test_a_ban_ends_connections_and_refuses_tokens_on_three_servers(
    settings_with: Callable[..., Settings],
) -> None:
    settings = settings_with(jwt_secret=SECRET)
    backend = bearer(sub="backend", role="service", exp=time.time() + 600, iat=time.time() - 10)
    async with served(settings) as one, served(settings) as two, served(settings) as three:
        servers = (one, two, three)
        old = token("alice")
        sockets = [await server.connect(old) for server in servers]
        acting = await three.socket(backend, actAs="alice")
        assert await acting.receive() == {"type": "connection_ack"}
        bob = await two.connect(token("bob"))
        answer = (await call(one, admin(), 'mutation { banUser(userId: "alice", reason: "spam") { reason } }')).json()
        assert answer == {"data": {"banUser": {"reason": "spam"}}}
        # Nothing is waited for: the ban was applied everywhere before it was answered.
        for server in servers:
            for authorization in (old, token("alice", -2)):
                assert await code(server, authorization) == "BANNED"
            assert await code(server, backend, act_as="alice") == "BANNED"
            assert await code(server, backend) is None
        assert [await peer.closed() for peer in (*sockets, acting)] == [BANNED] * 4
        assert await bob.is_alive()
        refused = await call(two, old, ME, accept="application/graphql-response+json")
        assert refused.status_code == 403
        for payload in ({}, {"actAs": "alice"}):
            peer = await two.socket(backend if payload else token("alice", -2), **payload)
            close = await peer.closed()
            assert close[0] == 4403 and close[1].startswith("This user is banned")
        assert await code(three, admin(), 'mutation { unbanUser(userId: "alice") }') is None
        for server in servers:
            assert await code(server, old) == "UNAUTHENTICATED"
            assert await code(server, token("alice", -5)) is None
            assert await code(server, backend, act_as="alice") is None


async def test_a_server_that_starts_later_knows_the_ban(settings_with: Callable[..., Settings]) -> None:
    settings = settings_with(jwt_secret=SECRET)
    async with served(settings) as server:
        assert await code(server, token("alice")) is None
        assert await code(server, admin(), 'mutation { banUser(userId: "alice") { reason } }') is None
    async with served(settings) as restarted:
        assert await code(restarted, token("alice")) == "BANNED"


async def test_a_server_that_missed_the_announcement_reads_the_ban(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_services(settings) as services:
        store, bans = services.app.store, services.app.bans
        ended: list[str] = []

        async def end(user: UserId) -> None:
            ended.append(user)

        bans.on_ban(end)
        await store.bans.change_deployment(store.bans.writes(Ban(None, ALICE, UserId("boss"), 1)))
        send_to_redis(settings.redis_url, "CLIENT", "KILL", "TYPE", "pubsub")
        await until(lambda: bans.find(ALICE) is not None)
        await until(lambda: ended == [ALICE])
    monkeypatch.setattr("store.base.repeated_read.CHECK_SECONDS", 0.05)
    async with open_services(settings) as services:
        store, bans = services.app.store, services.app.bans
        assert bans.find(ALICE) is not None
        await store.bans.change_deployment(store.bans.removal_writes(None, ALICE))
        await until(lambda: bans.find(ALICE) is None)


async def test_a_user_who_connects_after_a_ban_has_ended_is_cut_off_by_the_next_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_services(settings) as services:
        store, bans = services.app.store, services.app.bans
        ended: list[str] = []

        async def end(user: UserId) -> None:
            ended.append(user)

        until_ms = store.clock.now_ms() + 300
        await store.bans.change_deployment(store.bans.writes(Ban(None, ALICE, UserId("boss"), 1, until_ms)))
        await bans.announce(ALICE)
        await until(lambda: bans.find(ALICE) is None)
        bans.on_ban(end)
        await store.bans.change_deployment(store.bans.writes(Ban(None, ALICE, UserId("boss"), 1)))
        send_to_redis(settings.redis_url, "CLIENT", "KILL", "TYPE", "pubsub")
        await until(lambda: bans.find(ALICE) is not None)
        await until(lambda: ended == [ALICE])


async def test_no_message_gets_in_after_the_answer(
    settings_with: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    # In production, the answer waits at most 3 s for sends that have begun.
    monkeypatch.setattr("server.overload.operation_queue._LONGEST_WAIT_SECONDS", PATIENCE)
    settings = settings_with(jwt_secret=SECRET, sends_per_minute=0)
    random_, reserve = random.Random(1), OutboxStore.reserve

    async def reserve_later(*args: Any, **options: Any) -> Any:
        await asyncio.sleep(random_.uniform(0, 0.05))
        return await reserve(*args, **options)

    monkeypatch.setattr(OutboxStore, "reserve", reserve_later)
    send = 'mutation { sendMessage(input: {toUserId: "bob", content: "spam"}) { message { seq } } }'
    async with served(settings) as one, served(settings) as two, served(settings) as three:
        alice, is_over = token("alice"), asyncio.Event()
        for authorization in (alice, token("bob")):
            assert await code(one, authorization) is None

        seqs: list[int] = []

        async def send_on(server: Server) -> None:
            while not is_over.is_set():
                answer = (await call(server, alice, send)).json()
                if "errors" in answer:
                    assert answer["errors"][0]["extensions"]["code"] == "BANNED"
                else:
                    seqs.append(answer["data"]["sendMessage"]["message"]["seq"])

        sending = [asyncio.create_task(send_on(server)) for server in (one, two, three) for _ in range(3)]
        await until(lambda: len(seqs) > len(sending))
        assert await code(one, admin(), 'mutation { banUser(userId: "alice") { reason } }') is None
        marker = 'mutation { sendMessage(input: {toUserId: "alice", content: "marker"}) { message { seq } } }'
        answer = (await call(two, token("bob"), marker)).json()
        await asyncio.sleep(0.2)
        is_over.set()
        await asyncio.gather(*sending)
        assert max(seqs) < answer["data"]["sendMessage"]["message"]["seq"]
