"""`confab admin` changes nothing, also if Redis is away, and is another one than that of the servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis
from redis.cluster import RedisCluster

from server.services import open_services
from server.settings import Settings
from store.admin.read_only import ReadOnlyCache, ReadOnlyMongo, ReadOnlyViolation
from store.mongo.client import Mongo
from store.redis.cache import Call
from tests.api.channels.calls import make_workspace
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import Api
from tests.api.devices.calls import register
from tests.api.session_calls import MUTE
from tests.server.admin.conftest import Json, RunAdmin
from tests.webhooks.calls import admin, create_webhook

_SOON_MS = 120_000
"""Keys that expire earlier may be gone before a test ends."""


async def seed(settings: Settings, janitor: MongoClient[Json]) -> list[tuple[str, ...]]:
    """Fill a deployment, stop its server, and return calls of every command."""
    async with open_services(settings, start_wait_seconds=120) as services:
        api = Api(services, janitor, settings.mongo_database)
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        await api.listen(bob)
        await api.data(bob, "query ($id: ID!) { session(conversationId: $id) { id } }", id=group)
        await api.send(alice, group)
        await api.data(bob, MUTE, id=group, muted=True, until="2030-01-01T00:00:00Z")
        parent = (await api.send(alice, group))["message"]
        await api.send(alice, parent["id"], "reply")
        made = await make_workspace(api)
        channel = (await made.create())["id"]
        await api.data(made.member, FOLLOW, id=channel)
        await api.send(made.owner, channel)
        await register(api, bob, "phone", pushPlatform="FCM", pushToken="f" * 40)
        webhook = await create_webhook(api, admin(), "https://hooks.example.org/x")
        # These wait in Redis, and a request would fold them.
        await api.send(alice, group)
        await api.wait_until_idle()
        await api.stop_subscriptions()
    return [
        ("user", bob),
        ("user", made.member),
        ("conversation", group),
        ("conversation", channel),
        ("conversation", f"t_{parent['seq']}_{group}"),
        ("connections",),
        ("queues",),
        ("webhooks",),
        ("webhooks", webhook["id"]),
        ("reports",),
        ("explain", bob, group),
        ("explain", bob, f"t_{parent['seq']}_{group}"),
        ("explain", made.member, channel),
        ("explain", made.outsider, channel),
    ]


def mongo_contents(janitor: MongoClient[Json], settings: Settings) -> Json:
    """Return a hash of every collection."""
    hashes: Json = janitor[settings.mongo_database].command("dbHash")["collections"]
    return hashes


def redis_contents(janitor: Redis | RedisCluster, prefix: str) -> dict[bytes, tuple[Any, int]]:
    """Return the value of each key, and its time to live (ms; -1: it does not end)."""
    return {key: (janitor.dump(key), int(janitor.pttl(key))) for key in janitor.scan_iter(match=f"{prefix}*")}


async def test_no_command_changes_mongodb_or_redis(
    settings: Settings,
    run_admin: RunAdmin,
    _mongo_janitor: MongoClient[Json],
    _redis_janitor: Redis | RedisCluster,
) -> None:
    calls = await seed(settings, _mongo_janitor)
    mongo_before = mongo_contents(_mongo_janitor, settings)
    redis_before = redis_contents(_redis_janitor, settings.redis_prefix)
    assert any(key.endswith(b":meta") for key in redis_before)
    for call in calls:
        code, out, err = await run_admin(*call)
        assert (code, err) == (0, ""), (call, err, out)
    assert mongo_contents(_mongo_janitor, settings) == mongo_before
    redis_after = redis_contents(_redis_janitor, settings.redis_prefix)
    assert redis_after.keys() <= redis_before.keys()
    for key, (value, lifetime) in redis_before.items():
        if lifetime < 0 or lifetime > _SOON_MS:
            after, left = redis_after[key]
            assert after == value, key
            assert left <= lifetime and (left < 0) == (lifetime < 0), key


@pytest.mark.parametrize("away", ["not reachable", "another one"])
async def test_commands_say_that_redis_is_away(
    away: str,
    settings: Settings,
    run_admin: RunAdmin,
    monkeypatch: pytest.MonkeyPatch,
    _mongo_janitor: MongoClient[Json],
) -> None:
    calls: Sequence[tuple[str, ...]] = await seed(settings, _mongo_janitor)
    if away == "not reachable":
        monkeypatch.setenv("CONFAB_REDIS_URL", "redis://127.0.0.1:1")
    else:
        deployment = _mongo_janitor[settings.mongo_database]["deployment"]
        deployment.update_one({"_id": 1}, {"$set": {"run": "another"}, "$unset": {"runs": ""}})
    before = mongo_contents(_mongo_janitor, settings)
    for call in calls:
        code, out, err = await run_admin(*call, "--json")
        assert (code, err) == (0, ""), (call, err)
        # Before it there may be logs, which go to stderr outside of tests.
        view = json.loads(out.splitlines()[-1])
        if call[0] in ("webhooks", "reports"):
            # They need no Redis.
            continue
        assert view["redis"]["is_available"] is False, call
        if away == "another one":
            assert "the servers do not use this Redis" in view["redis"]["reason"]
        if call[0] == "explain":
            assert view["agrees"] is True
            assert any("Redis is not available" in sentence for sentence in view["verdict"])
    assert mongo_contents(_mongo_janitor, settings) == before


async def test_databases_for_reading_refuse_every_change(settings: Settings) -> None:
    mongo, cache = ReadOnlyMongo(settings.mongo_url, settings.mongo_database), ReadOnlyCache(settings.redis_url)
    writing = {name for name in vars(Mongo) if not name.startswith("_")} - {
        *("aggregate", "close", "find", "find_as_of_one_moment", "find_one", "gather", "is_sharded", "ping"),
        *("refuse_calls", "require_primary"),
    }
    for name in writing:
        with pytest.raises(ReadOnlyViolation):
            getattr(mongo, name)()
    for call in (Call("SET", ("key",), ("value",)), Call("apply", ("{u:a}:meta",)), Call("PEXPIRE", ("key",), (1,))):
        with pytest.raises(ReadOnlyViolation):
            await cache.run([call])
    await cache.close()
    await mongo.close()
