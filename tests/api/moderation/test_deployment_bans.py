"""Bans from the whole deployment: rights, terms, lists. Connections: tests/server/test_banned_users.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from resolvers.users.callers import CallerRole, act_as
from store.base.ids import UserId
from store.mongo.collections import BANS
from tests.api.client import Api, Refusal, make_caller
from tests.api.conftest import OpenApi
from tests.api.moderation.calls import ADMIN, BAN, UNBAN, ban, banned_users, entries, later, unban
from tests.api.moderation.calls import BANS as LIST
from tests.api.workspaces.calls import SERVICE
from tests.clock import DAY_MS, ManualClock


@pytest.fixture(autouse=True)
async def no_bans(api: Api) -> AsyncIterator[None]:
    yield
    for user in await banned_users(api, ADMIN, None):
        await unban(api, ADMIN, None, user)


async def test_only_admins_ban_from_the_deployment(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.services.sign_in(SERVICE)
    before = await api.stored_hashes()
    for caller in (alice, SERVICE):
        for document in (BAN, UNBAN):
            assert await api.expect_refusal(caller, document, user=bob) == Refusal("FORBIDDEN")
        assert await api.expect_refusal(caller, LIST) == Refusal("FORBIDDEN")
    assert await api.stored_hashes() == before


async def test_admins_ban_neither_themselves_nor_the_user_that_they_act_for(api: Api) -> None:
    alice, boss = await api.create_users("alice", "boss")
    admin = make_caller(boss, CallerRole.ADMIN)
    acting = act_as(admin, alice, "actAs")
    before = {name: digest for name, digest in (await api.stored_hashes()).items() if name != "audit"}
    for caller, user in ((admin, boss), (acting, boss), (acting, alice)):
        assert await api.expect_refusal(caller, BAN, user=user) == Refusal("INVALID_INPUT", "userId")
    assert await api.expect_refusal(admin, BAN, user="nobody") == Refusal("NOT_FOUND", "userId")
    for variables, field in (
        ({"until": later(seconds=-1)}, "until"),
        ({"delete": 604_801}, "deleteSeconds"),
        ({"reason": "x" * 501}, "reason"),
    ):
        refusal = await api.expect_refusal(admin, BAN, user=alice, **variables)
        assert refusal == Refusal("INVALID_INPUT", field)
    # The audit log has the mutations that admins try for users.
    assert {name: digest for name, digest in (await api.stored_hashes()).items() if name != "audit"} == before


async def test_servers_know_bans_and_lifts_at_once(api: Api, other_api: Api) -> None:
    users = await api.create_users("alice", "bob")
    for user in users:
        given = await ban(api, ADMIN, None, user, reason="spam")
        assert (given["by"]["id"], given["reason"], given["until"]) == ("admin", "spam", None)
    for where in (api, other_api):
        bans = where.services.app.bans
        assert all(bans.find(UserId(user)) is not None for user in users)
        assert await banned_users(where, ADMIN, None, 1) == users
    assert await unban(other_api, ADMIN, None, users[0]) is True
    assert await unban(other_api, ADMIN, None, users[0]) is False
    for where in (api, other_api):
        bans = where.services.app.bans
        assert [bans.find(UserId(user)) is not None for user in users] == [False, True]
    notes = [entry for entry in entries(api, None, "banUser") if entry["t"] == users[0]]
    assert [(note["u"], note["f"]) for note in notes] == [
        ("admin", {"until": None, "reason": "spam", "deleteSeconds": 0})
    ]
    assert [entry["t"] for entry in entries(api, None, "unbanUser")][-1] == users[0]


async def test_the_same_ban_again_changes_nothing(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    until = later(days=1)
    first = await ban(api, ADMIN, None, alice, until=until)
    before = await api.stored_hashes()
    assert await ban(api, ADMIN, None, alice, until=until) == first
    assert await api.stored_hashes() == before
    second = await ban(api, ADMIN, None, alice, reason="now for good")
    assert (second["until"], second["reason"], second["createdAt"]) == (None, "now for good", first["createdAt"])


async def test_a_ban_ends_by_itself_on_all_servers(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ending", clock) as api, open_api("ending", clock) as other:
        (alice,) = await api.create_users("alice")
        end = datetime.fromtimestamp((clock.now_ms() + 60_000) / 1000, UTC).isoformat()
        await ban(api, ADMIN, None, alice, until=end)
        assert other.services.app.bans.find(UserId(alice)) is not None
        await api.advance_days(clock, 60_000 / DAY_MS)
        for where in (api, other):
            assert where.services.app.bans.find(UserId(alice)) is None
        assert await banned_users(api, ADMIN, None) == []
        assert api.database[BANS].count_documents({}) == 1


async def test_a_ban_is_stored_though_a_server_gives_no_answer(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alice,) = await api.create_users("alice")

    async def never(_question: object) -> dict[str, object]:
        raise AssertionError("a test")

    monkeypatch.setitem(other_api.services.app.bus.calls._answers, "bans", never)
    monkeypatch.setattr("subscriptions.realtime.bans.banned_users.ANSWER_SECONDS", 0.05)
    assert await api.expect_refusal(ADMIN, BAN, user=alice) == Refusal("UNAVAILABLE", retryable=True)
    monkeypatch.undo()
    await ban(api, ADMIN, None, alice)
    assert other_api.services.app.bans.find(UserId(alice)) is not None
