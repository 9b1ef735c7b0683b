"""How often users may do what: on one server, over all of them, and what those are told who do it too often."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from server.settings import Settings
from store.base.ids import UserId
from store.redis.cache import Cache
from store.redis.keys import Keys
from store.redis.scripts import read_scripts
from store.users.rate_limits import RateLimit
from tests.api.client import CREATE_GROUP, EDIT, RECALL, SEND, Api, message_input, private_id
from tests.api.conftest import OpenApi
from tests.server.served_app import ServeApp
from tests.server.tokens import bearer

RENAME = "mutation ($id: ID!, $name: String) { updateGroup(groupId: $id, input: {name: $name}) { id } }"
ALICE = UserId("alice")
A_MINUTE = 8
"""Four at once, then one every 7.5 s."""


class Seconds:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
async def server(redis_url: str, redis_prefix: str, seconds: Seconds) -> AsyncIterator[Callable[..., RateLimit]]:
    """Makes servers of one deployment, or with another Redis."""
    caches = []

    def made(url: str = redis_url, per_minute: int = A_MINUTE) -> RateLimit:
        caches.append(Cache(url, prefix=redis_prefix))
        return RateLimit(caches[-1], Keys(redis_prefix), "sends", per_minute, seconds)

    yield made
    for cache in caches:
        await cache.close()


async def test_half_a_minutes_worth_is_free_at_once_and_the_rest_as_time_goes_by(
    server: Callable[..., RateLimit], seconds: Seconds
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


async def test_what_one_server_let_through_the_others_know(server: Callable[..., RateLimit]) -> None:
    one, other = server(), server()
    assert [one.count(ALICE) for _ in range(3)] == [0, 0, 0]
    await one.settle()
    # A server that knows nothing of a user lets them in, and has learned by then.
    assert other.count(ALICE) == 0
    await other.settle()
    assert 7_000 < other.count(ALICE) <= 7_501


async def test_what_is_let_through_by_many_at_once_has_to_be_made_up_for(server: Callable[..., RateLimit]) -> None:
    servers = [server() for _ in range(3)]
    assert [limit.count(ALICE) for limit in servers for _ in range(4)] == [0] * 12
    for limit in servers:
        await limit.settle()
    # Twelve were taken, four are free: eight of 7.5 s are to pass, and one for the next. Whoever was counted last knows it all.
    assert 67_000 < max(limit.count(ALICE) for limit in servers) <= 67_501


async def test_refusals_cost_nothing(server: Callable[..., RateLimit], seconds: Seconds) -> None:
    limit = server()
    for _ in range(100):
        limit.count(ALICE)
    await limit.settle()
    seconds.now += 7.6
    assert limit.count(ALICE) == 0


async def test_without_redis_a_server_keeps_to_the_rate_alone(server: Callable[..., RateLimit]) -> None:
    limit = server("redis://127.0.0.1:1/0")
    taken = []
    for _ in range(6):
        taken.append(limit.count(ALICE))
        await limit.settle()
    assert taken[:4] == [0] * 4 and taken[4] > 0 and taken[5] > 0


async def test_no_rate_is_no_limit(server: Callable[..., RateLimit]) -> None:
    limit = server(per_minute=0)
    assert not any(limit.count(ALICE) for _ in range(1_000))


async def test_a_clock_of_redis_that_is_set_back_makes_nobody_wait(_redis_janitor: Any, redis_prefix: str) -> None:
    """As where a replica takes over whose clock is behind."""
    script = read_scripts()["count_rate"].source.replace("redis.call('TIME')", "{ARGV[3], 0}")

    def count(at: int) -> float:
        """Seconds until what was counted is made up for, at this time (seconds) of Redis."""
        ahead = _redis_janitor.eval(script, 1, f"{redis_prefix}{{u:alice}}:rate:clock", 7_500_000, 1, at)
        return int(ahead) / 1e6

    assert [count(10_000), count(10_003), count(6_400), count(6_404)] == [7.5, 12.0, 19.5, 23.0]


async def test_redis_forgets_a_rate_that_is_made_up_for(
    server: Callable[..., RateLimit], _redis_janitor: Any, redis_prefix: str
) -> None:
    limit = server()
    limit.count(ALICE)
    await limit.settle()
    assert 7_000 < _redis_janitor.pttl(f"{redis_prefix}{{u:alice}}:rate:sends") <= 7_500


# --- at the API


@pytest.fixture
async def strict(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("strict", sends_per_minute=A_MINUTE, group_changes_per_minute=A_MINUTE) as api:
        yield api


async def refused(api: Api, user: str, query: str, **variables: Any) -> None:
    """Fails unless it is refused for being too often, with when to come back, and leaves everything as it was."""
    before = await api.stored_documents()
    response = await api.run(user, query, **variables)
    assert not any((response.get("data") or {}).values())
    (error,) = response["errors"]
    wait = error["extensions"].pop("retryAfterMs")
    assert error["extensions"] == {"code": "RATE_LIMITED", "retryable": True}
    assert 0 < wait <= 7_501
    assert await api.stored_documents() == before


async def test_messages_sent_too_often_are_refused_and_leave_nothing(strict: Api) -> None:
    alice, bob = await strict.create_users("alice", "bob")
    sent = [(await strict.send(alice, bob, f"{number}"))["message"] for number in range(3)]
    listener = await strict.listen(bob)
    assert (await strict.edit(alice, sent[0]["id"], "better"))["content"] == "better"
    await listener.next()
    await refused(strict, alice, SEND, input=message_input(bob, "too much"))
    await refused(strict, alice, EDIT, id=sent[0]["id"], content="too much")
    await refused(strict, alice, RECALL, id=sent[1]["id"])
    await listener.expect_no_event()
    assert [m["content"] for m in await strict.history(bob, private_id(alice, bob))] == ["better", "1", "2"]
    # Others write as they like.
    await strict.send(bob, alice)


async def test_a_replay_is_answered_however_often_and_counts_for_nothing(strict: Api) -> None:
    alice, bob = await strict.create_users("alice", "bob")
    first = await strict.send(alice, bob, idempotencyKey="1")
    for _ in range(10):
        assert (await strict.send(alice, bob, idempotencyKey="1"))["replayed"] is True
    for key in ("2", "3", "4"):
        await strict.send(alice, bob, idempotencyKey=key)
    await refused(strict, alice, SEND, input=message_input(bob, idempotencyKey="5"))
    again = await strict.send(alice, bob, idempotencyKey="1")
    assert (again["replayed"], again["message"]["id"]) == (True, first["message"]["id"])


async def test_a_key_that_was_refused_is_good_later(strict: Api) -> None:
    alice, bob = await strict.create_users("alice", "bob")
    for _ in range(4):
        await strict.send(alice, bob)
    await refused(strict, alice, SEND, input=message_input(bob, "late", idempotencyKey="mine"))
    strict.services.app.store.rate_limits.sends._budgets.clear()
    sent = await strict.send(alice, bob, "late", idempotencyKey="mine")
    assert (sent["replayed"], sent["message"]["seq"]) == (False, 5)


async def test_groups_changed_too_often_stay_as_they_are(strict: Api) -> None:
    alice, bob, carol = await strict.create_users("alice", "bob", "carol")
    group = await strict.create_group(alice, bob, carol)
    for name in ("one", "two", "three"):
        await strict.data(alice, RENAME, id=group, name=name)
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
        await refused(strict, alice, f"mutation ({declared}) {{ {call} }}", id=group, target=bob)
    await refused(strict, alice, CREATE_GROUP, input={"name": "Another", "memberIds": [bob, carol]})
    await strict.data(bob, "mutation ($id: ID!) { leaveGroup(groupId: $id) }", id=group)


async def test_operations_of_any_kind_are_limited_for_each_user(open_api: OpenApi) -> None:
    async with open_api("operations", operations_per_minute=A_MINUTE) as api:
        alice, bob = await api.create_users("alice", "bob")
        for _ in range(4):
            await api.data(alice, "{ totalUnread }")
        await refused(api, alice, "{ totalUnread }")
        await api.data(bob, "{ totalUnread }")


# --- over the network


async def test_who_does_too_much_over_http_is_told_when_to_come_back(serve_app: ServeApp) -> None:
    async with serve_app(sends_per_minute=2, operations_per_minute=8) as app:
        await app.ask("{ me { id } }", "bob")
        send = 'mutation { sendMessage(input: {toUserId: "bob", content: "hello"}) { message { id } } }'
        await app.data(send, "alice")
        modern = {"accept": "application/graphql-response+json"}
        for headers, status in ((modern, 429), ({}, 200)):
            answer = await app.ask(send, "alice", **headers)
            assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (status, "RATE_LIMITED")
            assert answer.headers["retry-after"] == "30"
        await app.data("{ me { id } }", "alice")
        answer = await app.ask("{ me { id } }", "alice", **modern)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "8")


async def test_who_opens_too_many_sockets_and_streams_is_told_when_to_come_back(serve_app: ServeApp) -> None:
    async with serve_app(connections_per_minute=4) as app:
        await app.signed_in("alice")
        stream = await app.ask("{ me { id } }", "alice", accept="text/event-stream")
        assert stream.status_code == 200
        stream = await app.ask("{ me { id } }", "alice", accept="text/event-stream")
        assert (stream.status_code, stream.headers["retry-after"]) == (429, "15")
        peer = await app.socket()
        await peer.send(
            {"type": "connection_init", "payload": {"Authorization": bearer(sub="alice", exp=time.time() + 60)}}
        )
        code, reason = await peer.closed()
        assert code == 1013 and reason.startswith("Try again later: too many connections were opened; retry in 1")
        await app.signed_in("bob")


async def test_limits_are_in_force_unless_they_are_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for action in ("SENDS", "GROUP_CHANGES", "CONNECTIONS", "OPERATIONS"):
        monkeypatch.delenv(f"CONFAB_{action}_PER_MINUTE")
    settings = Settings()
    assert (settings.sends_per_minute, settings.group_changes_per_minute) == (6_000, 1_200)
    assert (settings.connections_per_minute, settings.operations_per_minute) == (1_200, 60_000)
