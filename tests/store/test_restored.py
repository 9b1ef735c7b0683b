"""`confab restored`: MongoDB is older than the data of Redis and of clients."""

from __future__ import annotations

import pytest
from pymongo import MongoClient

from bench.api_client import InsideAsker
from server.cli.migrate import mark_restored
from server.errors import CommandError
from server.services import open_services
from server.settings import Settings

SYNC = "query ($since: Cursor) { syncSessions(since: $since) { cursor reset totalUnread sessions { writeSeq } } }"
SEND = 'mutation { sendMessage(input: {toUserId: "bob", content: "hello"}) { message { seq } } }'


async def test_redis_data_and_cursors_from_the_lost_time_are_ignored(settings: Settings) -> None:
    async with open_services(settings) as services:
        alice, bob = InsideAsker(services, "alice"), InsideAsker(services, "bob")
        await bob.ask("{ me { id } }")
        await alice.ask(SEND)
        first = await bob.ask(SYNC, since=None)
    with MongoClient[dict[str, object]](settings.mongo_url) as mongo:
        # As after a restore: stored messages are gone, and the deployment's row is that of the backup.
        for name in ("messages", "conversations", "sessions", "receipts"):
            mongo[settings.mongo_database][name].delete_many({})
    await mark_restored(settings)
    async with open_services(settings) as services:
        alice, bob = InsideAsker(services, "alice"), InsideAsker(services, "bob")
        again = await bob.ask(SYNC, since=first["cursor"])
        assert (first["totalUnread"], again["totalUnread"], again["sessions"]) == (1, 0, [])
        assert again["reset"]
        assert (await alice.ask(SEND))["message"]["seq"] == 1
        assert not (await bob.ask(SYNC, since=again["cursor"]))["reset"]


async def test_a_key_whose_message_is_in_the_backup_still_holds(settings: Settings) -> None:
    send = SEND.replace("content:", 'idempotencyKey: "k", content:').replace("{ message", "{ replayed message")
    async with open_services(settings) as services:
        await InsideAsker(services, "bob").ask("{ me { id } }")
        assert not (await InsideAsker(services, "alice").ask(send))["replayed"]
    await mark_restored(settings)
    async with open_services(settings) as services:
        again = await InsideAsker(services, "alice").ask(send)
        assert (again["replayed"], again["message"]["seq"]) == (True, 1)


async def test_all_messages_are_indexed_again_if_the_backup_has_no_index(settings: Settings) -> None:
    async with open_services(settings) as services:
        await InsideAsker(services, "bob").ask("{ me { id } }")
        await InsideAsker(services, "alice").ask(SEND)
    with MongoClient[dict[str, object]](settings.mongo_url) as mongo:
        database = mongo[settings.mongo_database]
        database.drop_collection("search")
        # The messages are much older than the backup.
        database["deployment"].update_one({"_id": 1}, {"$inc": {"time": 600_000}})
    await mark_restored(settings)
    async with open_services(settings) as services:
        store = services.app.store
        assert not (await store.search_completeness.read()).is_past_indexed
        await services.housekeeper.indexing.index_past()
        with MongoClient[dict[str, object]](settings.mongo_url) as mongo:
            assert mongo[settings.mongo_database]["search"].count_documents({}) == 1
        await store.index_states.read()
        assert (await store.search_completeness.read()).is_past_indexed


async def test_messages_around_a_backup_with_an_index_are_indexed_again(settings: Settings) -> None:
    async with open_services(settings) as services:
        await InsideAsker(services, "bob").ask("{ me { id } }")
        await InsideAsker(services, "alice").ask(SEND)
    await mark_restored(settings)
    async with open_services(settings) as services:
        state = await services.app.store.index_states.read()
        assert state.position != 0


async def test_a_database_without_a_deployment_is_left_unchanged(settings: Settings) -> None:
    with pytest.raises(CommandError, match="no deployment"):
        await mark_restored(settings)
    with MongoClient[dict[str, object]](settings.mongo_url) as mongo:
        assert mongo[settings.mongo_database].list_collection_names() == []
