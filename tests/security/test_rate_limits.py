"""Rate limits per user, on one server and across servers, and the errors that limited users receive."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from server.settings import UNLIMITED, Settings, variable
from store.base.ids import UserId
from store.redis.cache import Cache
from store.redis.keys import Keys
from store.scripts import read_scripts
from store.users.rate_limits import RateLimit
from tests.api.client import CREATE_GROUP, EDIT, RECALL, SEND, Api, message_input, private_id
from tests.api.conftest import OpenApi
from tests.api.files.calls import create_upload, put
from tests.server.served_app import ServeApp
from tests.server.tokens import bearer

RENAME = "mutation ($id: ID!, $name: String) { updateGroup(groupId: $id, input: {name: $name}) { id } }"
ALICE = UserId("alice")
PER_MINUTE = 8
"""Four at once, then one each 7.5 s."""


class ManualSeconds:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> ManualSeconds:
    return ManualSeconds()


@pytest.fixture
async def server(redis_url: str, redis_prefix: str, seconds: ManualSeconds) -> AsyncIterator[Callable[..., RateLimit]]:
    """Returns servers of one deployment, or with another Redis."""
    caches = []

    def create_limit(url: str = redis_url, per_minute: int = PER_MINUTE) -> RateLimit:
        caches.append(Cache(url, read_scripts, prefix=redis_prefix))
        return RateLimit(caches[-1], Keys(redis_prefix), "sends", per_minute, seconds)

    yield create_limit
    for cache in caches:
        await cache.close()


async def test_half_of_the_rate_per_minute_is_available_at_once(
    server: Callable[..., RateLimit], seconds: ManualSeconds
) -> None:
    limit = server()
    assert [limit.count(ALICE) for _ in range(5)] == [0, 0, 0, 0, 7_501]
    assert limit.count(UserId("bob")) == 0
    await limit.settle()
    seconds.now += 7.4
    assert 90 <= limit.count(ALICE) <= 110
    seconds.now += 0.12
    assert limit.count(ALICE) == 0
    assert limit.count(ALICE) > 7_000
    seconds.now += 600
    assert [limit.count(ALICE) for _ in range(5)].count(0) == 4
    await limit.settle()


async def test_servers_share_the_counts_of_a_user(server: Callable[..., RateLimit]) -> None:
    first, second = server(), server()
    assert [first.count(ALICE) for _ in range(3)] == [0, 0, 0]
    await first.settle()
    # A server that does not know the user accepts the first request, and learns the count with it.
    assert second.count(ALICE) == 0
    await second.settle()
    assert 0 < second.count(ALICE) <= 7_501


async def test_requests_accepted_in_excess_delay_later_ones(server: Callable[..., RateLimit]) -> None:
    servers = [server() for _ in range(3)]
    assert [limit.count(ALICE) for limit in servers for _ in range(4)] == [0] * 12
    for limit in servers:
        await limit.settle()
    # 12 were accepted and 4 are free, so 8 of 7.5 s must pass, and one more. The server counted last knows all.
    assert 40_000 < max(limit.count(ALICE) for limit in servers) <= 67_501


async def test_refused_requests_are_not_counted(server: Callable[..., RateLimit], seconds: ManualSeconds) -> None:
    limit = server()
    for _ in range(100):
        limit.count(ALICE)
    await limit.settle()
    seconds.now += 7.6
    assert limit.count(ALICE) == 0


async def test_without_redis_a_server_limits_by_its_own_counts(server: Callable[..., RateLimit]) -> None:
    limit = server("redis://127.0.0.1:1/0")
    taken = []
    for _ in range(6):
        taken.append(limit.count(ALICE))
        await limit.settle()
    assert taken[:4] == [0] * 4 and taken[4] > 0 and taken[5] > 0


async def test_a_rate_of_zero_is_no_limit(server: Callable[..., RateLimit]) -> None:
    limit = server(per_minute=0)
    assert not any(limit.count(ALICE) for _ in range(1_000))


async def test_a_redis_clock_set_back_causes_no_extra_delay(_redis_janitor: Any, redis_prefix: str) -> None:
    """As after a failover to a replica whose clock is behind."""
    script = read_scripts()["count_rate"].source.replace("redis.call('TIME')", "{ARGV[3], 0}")

    def count(at: int) -> float:
        """Return the seconds until the counted requests are allowed again, at this time (seconds) of Redis."""
        ahead = _redis_janitor.eval(script, 1, f"{redis_prefix}{{u:alice}}:rate:clock", 7_500_000, 1, at)
        return int(ahead) / 1e6

    assert [count(10_000), count(10_003), count(6_400), count(6_404)] == [7.5, 12.0, 19.5, 23.0]


async def test_redis_drops_a_count_that_has_expired(
    server: Callable[..., RateLimit], _redis_janitor: Any, redis_prefix: str
) -> None:
    limit = server()
    limit.count(ALICE)
    await limit.settle()
    assert 0 < _redis_janitor.pttl(f"{redis_prefix}{{u:alice}}:rate:sends") <= 7_500


@pytest.fixture
async def limited_api(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("strict", sends_per_minute=PER_MINUTE, group_changes_per_minute=PER_MINUTE) as api:
        stop_time(api)
        yield api


def stop_time(api: Api) -> None:
    """Stop the clock of the rate limits of a process: on a slow machine, actions would become free."""
    limits = api.services.app.store.rate_limits
    now = limits.sends._clock()
    for limit in (limits.sends, limits.group_changes, limits.operations):
        limit._clock = lambda: now


async def expect_rate_limited(api: Api, user: str, query: str, **variables: Any) -> None:
    """Fail unless the operation is refused as RATE_LIMITED, with a delay to retry after, and changes nothing."""
    before = await api.stored_hashes()
    response = await api.run(user, query, **variables)
    assert not any((response.get("data") or {}).values())
    (error,) = response["errors"]
    wait = error["extensions"].pop("retryAfterMs")
    assert error["extensions"] == {"code": "RATE_LIMITED", "retryable": True}
    assert 0 < wait <= 7_501
    assert await api.stored_hashes() == before


async def test_messages_above_the_rate_are_refused(limited_api: Api) -> None:
    alice, bob = await limited_api.create_users("alice", "bob")
    sent = [(await limited_api.send(alice, bob, f"{number}"))["message"] for number in range(3)]
    listener = await limited_api.listen(bob)
    assert (await limited_api.edit(alice, sent[0]["id"], "better"))["content"] == "better"
    await listener.next()
    await expect_rate_limited(limited_api, alice, SEND, input=message_input(bob, "too much"))
    await expect_rate_limited(limited_api, alice, EDIT, id=sent[0]["id"], content="too much")
    await expect_rate_limited(limited_api, alice, RECALL, id=sent[1]["id"])
    await listener.expect_no_event()
    assert [m["content"] for m in await limited_api.history(bob, private_id(alice, bob))] == ["better", "1", "2"]
    # Other users are not affected.
    await limited_api.send(bob, alice)


async def test_uploads_above_the_rate_are_refused(limited_api: Api) -> None:
    alice, bob = await limited_api.create_users("alice", "bob")
    upload = await create_upload(limited_api, alice, private_id(alice, bob))
    for _ in range(3):
        assert (await put(limited_api, upload["url"])).status_code == 204
    before = await limited_api.stored_documents()
    refused = await put(limited_api, upload["url"])
    assert refused.status_code == 429 and 0 < int(refused.headers["retry-after"]) <= 8
    assert await limited_api.stored_documents() == before
    # Other users are not affected.
    other = await create_upload(limited_api, bob, private_id(alice, bob))
    assert (await put(limited_api, other["url"])).status_code == 204


async def test_replays_are_not_counted(limited_api: Api) -> None:
    alice, bob = await limited_api.create_users("alice", "bob")
    first = await limited_api.send(alice, bob, idempotencyKey="1")
    for _ in range(10):
        assert (await limited_api.send(alice, bob, idempotencyKey="1"))["replayed"] is True
    for key in ("2", "3", "4"):
        await limited_api.send(alice, bob, idempotencyKey=key)
    await expect_rate_limited(limited_api, alice, SEND, input=message_input(bob, idempotencyKey="5"))
    again = await limited_api.send(alice, bob, idempotencyKey="1")
    assert (again["replayed"], again["message"]["id"]) == (True, first["message"]["id"])


async def test_a_key_refused_by_the_rate_limit_can_be_used_later(limited_api: Api) -> None:
    alice, bob = await limited_api.create_users("alice", "bob")
    for _ in range(4):
        await limited_api.send(alice, bob)
    await expect_rate_limited(limited_api, alice, SEND, input=message_input(bob, "late", idempotencyKey="mine"))
    limited_api.services.app.store.rate_limits.sends._budgets.clear()
    sent = await limited_api.send(alice, bob, "late", idempotencyKey="mine")
    assert (sent["replayed"], sent["message"]["seq"]) == (False, 5)


async def test_group_changes_above_the_rate_are_refused(limited_api: Api) -> None:
    alice, bob, carol = await limited_api.create_users("alice", "bob", "carol")
    group = await limited_api.create_group(alice, bob, carol)
    for name in ("one", "two", "three"):
        await limited_api.data(alice, RENAME, id=group, name=name)
    calls = [
        'updateGroup(groupId: $id, input: {name: "four"}) { id }',
        "inviteMembers(groupId: $id, userIds: [$target]) { id }",
        "removeMember(groupId: $id, userId: $target) { id }",
        "transferOwner(groupId: $id, userId: $target) { id }",
        "setMemberRole(groupId: $id, userId: $target, role: ADMIN) { id }",
        "leaveGroup(groupId: $id)",
        "dismissGroup(groupId: $id)",
        "deleteConversation(conversationId: $id)",
    ]
    for call in calls:
        declared = "$id: ID!, $target: ID!" if "$target" in call else "$id: ID!"
        await expect_rate_limited(limited_api, alice, f"mutation ({declared}) {{ {call} }}", id=group, target=bob)
    await expect_rate_limited(limited_api, alice, CREATE_GROUP, input={"name": "Another", "memberIds": [bob, carol]})
    await limited_api.data(bob, "mutation ($id: ID!) { leaveGroup(groupId: $id) }", id=group)


async def test_operations_are_limited_for_each_user(open_api: OpenApi) -> None:
    async with open_api("operations", operations_per_minute=PER_MINUTE) as api:
        stop_time(api)
        alice, bob = await api.create_users("alice", "bob")
        for _ in range(4):
            await api.data(alice, "{ totalUnread }")
        await expect_rate_limited(api, alice, "{ totalUnread }")
        await api.data(bob, "{ totalUnread }")


async def test_http_answers_above_the_rate_have_a_retry_after(serve_app: ServeApp) -> None:
    modern = {"accept": "application/graphql-response+json"}
    async with serve_app(sends_per_minute=2) as app:
        await app.ask("{ me { id } }", "bob")
        send = 'mutation { sendMessage(input: {toUserId: "bob", content: "hello"}) { message { id } } }'
        await app.data(send, "alice")
        for headers, status in ((modern, 429), ({}, 200)):
            answer = await app.ask(send, "alice", **headers)
            assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (status, "RATE_LIMITED")
            assert 10 < int(answer.headers["retry-after"]) <= 30
        await app.data("{ me { id } }", "alice")
    async with serve_app(operations_per_minute=2) as app:
        await app.data("{ me { id } }", "carol")
        answer = await app.ask("{ me { id } }", "carol", **modern)
        assert answer.status_code == 429 and 10 < int(answer.headers["retry-after"]) <= 30


async def test_connections_above_the_rate_have_a_retry_after(serve_app: ServeApp) -> None:
    async with serve_app(connections_per_minute=4) as app:
        await app.signed_in("alice")
        stream = await app.ask("{ me { id } }", "alice", accept="text/event-stream")
        assert stream.status_code == 200
        stream = await app.ask("{ me { id } }", "alice", accept="text/event-stream")
        assert stream.status_code == 429 and 10 < int(stream.headers["retry-after"]) <= 15
        peer = await app.socket()
        await peer.send(
            {"type": "connection_init", "payload": {"Authorization": bearer(sub="alice", exp=time.time() + 60)}}
        )
        code, reason = await peer.closed()
        assert code == 1013 and reason.startswith("Try again later: too many connections were opened; retry in 1")
        await app.signed_in("bob")


async def test_the_limits_apply_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for rate in UNLIMITED:
        monkeypatch.delenv(variable(rate))
    settings = Settings()
    assert (settings.sends_per_minute, settings.group_changes_per_minute) == (6_000, 1_200)
    assert (settings.connections_per_minute, settings.operations_per_minute) == (1_200, 60_000)
