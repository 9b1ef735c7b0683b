"""Every stored message and every edit gets into the index, whichever server dies or database is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from resolvers.messages.new_messages import NewMessage
from store.base.errors import Unreachable
from store.base.ids import ConversationId, message_id
from store.mongo.collections import at_place
from store.redis.cache import Call
from store.search.completeness import Completeness
from store.search.index_state import FRESH_SECONDS
from store.search.search_index import SearchCriteria
from store.store import Store
from subscriptions.delivery.search.indexing import NOTICING_SECONDS
from tests.api.client import Api, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.recovery.test_loss_recovery import store_and_die


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count every note as old, let a rebuild wait for no server, and use a state for ten minutes after it was read."""
    monkeypatch.setattr("store.search.index_state.FRESH_SECONDS", 600.0)
    monkeypatch.setattr("subscriptions.delivery.search.indexing.OLD_MS", -1_000)
    monkeypatch.setattr("subscriptions.delivery.search.indexing.NOTICING_SECONDS", 0.0)
    monkeypatch.setattr("store.search.past_indexing.SETTLING_MS", 0)
    monkeypatch.setattr("store.search.index_states.MAX_STORE_DELAY_MS", 1_000)
    monkeypatch.setattr("store.search.past_indexing.MAX_STORE_DELAY_MS", 0)
    yield


def store_of(api: Api) -> Store:
    return api.services.app.store


async def found(api: Api, conversation: str, word: str) -> set[int]:
    """Return the seqs of messages that the index proposes for a word."""
    index = store_of(api).search_index
    assert index is not None
    wanted = SearchCriteria([ConversationId(conversation)], [word], [], "", 0, None, 100)
    return {proposal.seq for proposal in (await index.propose(wanted, 10.0)).found}


async def completeness(api: Api) -> Completeness:
    return await store_of(api).search_completeness.read()


async def index_past(api: Api) -> None:
    await store_of(api).index_states.read()
    await api.services.housekeeper.indexing.index_past()
    await store_of(api).index_states.read()


async def stop_indexing(api: Api) -> None:
    """Let a server index nothing, as if it died after each delivery."""
    indexing: Any = api.services.housekeeper.indexing
    await indexing.close()
    indexing.take = lambda messages, revision=None: None
    await api.services.housekeeper.close()


async def index_old(api: Api) -> int:
    """Index old notes as soon as no other server has the lock."""
    await store_of(api).cache.one(Call("DEL", (store_of(api).keys.indexing_lock,)))
    return await api.services.housekeeper.indexing.index_old()


async def test_a_message_waits_when_its_send_is_answered_and_is_indexed_soon(open_api: OpenApi) -> None:
    async with open_api("search-1") as api:
        alice, bob = await api.create_users("alice", "bob")
        sent = await api.send(alice, bob, "a zebra")

        first = await completeness(api)
        waiting = {message_id(message.id) for message in first.waiting.messages}
        assert sent["message"]["id"] in waiting or await found(api, private_id(alice, bob), "zebra")
        assert first.is_complete
        await api.services.housekeeper.indexing.index_delivered()

        assert len(await found(api, private_id(alice, bob), "zebra")) == 1
        assert (await completeness(api)).waiting.messages == []


async def test_messages_and_edits_of_a_dead_server_are_indexed_by_another(open_api: OpenApi) -> None:
    async with open_api("search-2") as dying, open_api("search-2") as api:
        await stop_indexing(dying)
        alice, bob = await dying.create_users("alice", "bob")
        conversation = private_id(alice, bob)
        sent = await dying.send(alice, bob, "a zebra")
        await dying.wait_until_idle()
        await dying.edit(alice, sent["message"]["id"], "a giraffe")
        await dying.wait_until_idle()
        assert [m.edits for m in (await completeness(api)).waiting.messages] == [0, 1]

        await index_old(api)

        assert len(await found(api, conversation, "giraffe")) == 1
        assert (await completeness(api)).waiting.messages == []


async def test_a_failing_index_leaves_the_notes(open_api: OpenApi, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_api("search-3") as api:
        await api.services.housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        with monkeypatch.context() as patch:
            patch.setattr("store.search.mongo_search_index.MongoSearchIndex.index", _raise_unreachable)
            await api.send(alice, bob, "a zebra")
            await api.services.housekeeper.indexing.index_delivered()
            assert len((await completeness(api)).waiting.messages) == 1

        assert await index_old(api) == 1
        assert len(await found(api, private_id(alice, bob), "zebra")) == 1


async def _raise_unreachable(*_: Any) -> None:
    raise Unreachable("no primary")


async def test_messages_and_edits_that_a_loss_of_redis_hid_are_indexed(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("search-4") as dying, open_api("search-4") as api:
        await stop_indexing(dying)
        await api.services.housekeeper.close()
        alice, bob = await dying.create_users("alice", "bob")
        conversation = private_id(alice, bob)
        sent = await dying.send(alice, bob, "a zebra")
        await dying.wait_until_idle()
        await dying.edit(alice, sent["message"]["id"], "a giraffe")
        await dying.wait_until_idle()
        await store_and_die(dying, monkeypatch, alice, NewMessage(bob, None, "an okapi"))
        deployments.flush_redis("search-4")

        assert not (await completeness(api)).is_complete
        await api.services.housekeeper.check_redis()
        assert not (await completeness(api)).is_complete
        await api.services.housekeeper.check_redis()
        assert not (await completeness(api)).is_complete
        await api.services.housekeeper._loss_recovery.recover()
        await api.services.housekeeper.check_redis()
        assert not (await completeness(api)).is_past_indexed
        await index_old(api)
        await index_past(api)

        assert len(await found(api, conversation, "giraffe")) == 1
        assert len(await found(api, conversation, "okapi")) == 1
        await api.services.housekeeper.indexing.index_delivered()
        assert (await completeness(api)).is_complete


async def test_an_edit_of_an_old_message_that_a_loss_of_redis_hid_is_indexed(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("search-5") as api:
        await stop_indexing(api)
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "a zebra")
        await api.wait_until_idle()
        store = store_of(api)
        # As if it had been sent long before the loss: only its edit is as new as the loss.
        await store.index_states.extend(store.clock.now_ms())
        edit = {"t": "a giraffe", "e": 1, "et": store.clock.now_ms() + 1_000}
        await store.mongo.update_one("messages", at_place(private_id(alice, bob), 1), {"$set": edit})

        await index_past(api)

        assert len(await found(api, private_id(alice, bob), "giraffe")) == 1
        assert store.index_states.known is not None and store.index_states.known.state.is_complete


async def test_messages_of_servers_that_note_none_are_indexed_later(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("search-6", search="off") as off:
        alice, bob = await off.create_users("alice", "bob")
        await off.send(alice, bob, "a zebra")
        assert off.database["search"].count_documents({}) == 0
        assert (await completeness(off)).waiting.messages == []
    async with open_api("search-6") as api:
        store = store_of(api)
        assert not (await completeness(api)).is_past_indexed
        ended = store.index_states.known
        assert ended is not None and ended.state.unnoted_until_ms > 0
        # The last lease of the other server has ended.
        await store.mongo.update_one("deployment", {"_id": 1}, {"$set": {"search.o": 0}})

        await index_past(api)

        assert len(await found(api, private_id(alice, bob), "zebra")) == 1
        assert (await completeness(api)).is_past_indexed


async def test_a_rebuild_while_messages_are_sent_finds_all_and_removes_the_old_rows(open_api: OpenApi) -> None:
    async with open_api("search-7") as api:
        store = store_of(api)
        await api.services.housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        conversation = private_id(alice, bob)
        for number in range(20):
            await api.send(alice, bob, f"zebra {number}")
        await api.services.housekeeper.indexing.index_delivered()
        before = api.database["search"].distinct("_id")

        state = await store.index_states.begin_rebuild()
        assert (await store.index_states.begin_rebuild()).rebuild == state.rebuild == 1
        await asyncio.gather(index_past(api), *(api.send(alice, bob, f"zebra {number}") for number in range(20, 40)))
        await api.services.housekeeper.indexing.index_delivered()

        assert len(await found(api, conversation, "zebra")) == 40
        assert not set(before) & set(api.database["search"].distinct("_id"))
        assert (await completeness(api)).is_complete


async def test_an_upgraded_deployment_indexes_its_past(open_api: OpenApi) -> None:
    async with open_api("search-8", search="off") as off:
        alice, bob = await off.create_users("alice", "bob")
        await off.send(alice, bob, "a zebra")
        off.database["deployment"].update_one({"_id": 1}, {"$unset": {"search": ""}})
        off.database["leases"].delete_many({})
        assert not (await completeness(off)).is_past_indexed
    async with open_api("search-8") as api:
        await store_of(api).index_states.read()
        assert not (await completeness(api)).is_past_indexed

        await store_of(api).mongo.update_one("deployment", {"_id": 1}, {"$set": {"search.o": 0}})
        await index_past(api)

        assert len(await found(api, private_id(alice, bob), "zebra")) == 1


async def test_too_many_notes_become_a_part_of_the_past(open_api: OpenApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subscriptions.delivery.search.indexing.MOST_NOTES", 2)
    async with open_api("search-9") as api:
        await stop_indexing(api)
        alice, bob = await api.create_users("alice", "bob")
        for number in range(3):
            await api.send(alice, bob, f"zebra {number}")

        assert await index_old(api) == 0
        assert (await completeness(api)).waiting.messages == []
        assert not (await completeness(api)).is_past_indexed
        await index_past(api)

        assert len(await found(api, private_id(alice, bob), "zebra")) == 3
        assert (await completeness(api)).is_complete


async def test_notes_stay_until_other_servers_know_that_they_are_part_of_the_past(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.delivery.search.indexing.MOST_NOTES", 2)
    async with open_api("search-11") as api, open_api("search-11") as other:
        await other.services.housekeeper.close()
        await stop_indexing(api)
        alice, bob = await api.create_users("alice", "bob")
        for number in range(3):
            await api.send(alice, bob, f"zebra {number}")
        await store_of(other).index_states.read()
        assert (await completeness(other)).is_complete
        monkeypatch.setattr("subscriptions.delivery.search.indexing.NOTICING_SECONDS", 3_600.0)

        extended, extend = asyncio.Event(), store_of(api).index_states.extend

        async def extend_and_report(since_ms: int) -> None:
            await extend(since_ms)
            extended.set()

        monkeypatch.setattr(store_of(api).index_states, "extend", extend_and_report)
        leaving = asyncio.create_task(index_old(api))
        async with asyncio.timeout(30):
            await extended.wait()

        # The other server has not read the new state.
        answer = await completeness(other)
        assert answer.is_complete
        assert len(answer.waiting.messages) == 3
        leaving.cancel()
        assert NOTICING_SECONDS > FRESH_SECONDS


async def test_notes_that_wait_for_long_become_a_part_of_the_past(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of Redis would forget them, and what it makes a part of the past does not reach back so far."""
    monkeypatch.setattr("subscriptions.delivery.search.indexing.MOST_AGE_MS", -1)
    async with open_api("search-12") as api:
        await stop_indexing(api)
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "a zebra")
        await api.wait_until_idle()

        assert await index_old(api) == 0
        assert (await completeness(api)).waiting.messages == []
        assert not (await store_of(api).index_states.read()).is_complete
        await index_past(api)

        assert len(await found(api, private_id(alice, bob), "zebra")) == 1


async def test_searches_are_incomplete_from_the_start_of_a_server_without_notes(open_api: OpenApi) -> None:
    async with open_api("search-14") as api:
        await api.services.housekeeper.close()
        await store_of(api).index_states.read()
        assert (await completeness(api)).is_complete
        async with open_api("search-14", search="off") as off:
            await off.services.housekeeper.close()
            # Every server reads the state once a second.
            await store_of(api).index_states.read()
            assert not (await completeness(api)).is_complete


async def test_a_server_without_notes_is_found_although_clocks_differ(open_api: OpenApi) -> None:
    async with open_api("search-13", search="off") as off:
        alice, bob = await off.create_users("alice", "bob")
        await off.send(alice, bob, "a zebra")
        states = store_of(off).index_states
        assert await states.end(await states.read())
        # The other server looks with a clock that is 8 s ahead, before this one ends.
        await states.watch(None, store_of(off).clock.now_ms() + 8_000)
    async with open_api("search-13") as api:
        assert not (await completeness(api)).is_past_indexed


async def test_the_copy_of_a_broadcast_reply_is_indexed_with_its_edits(open_api: OpenApi) -> None:
    async with open_api("search-10") as api:
        await api.services.housekeeper.close()
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        parent = await api.send(alice, group, "parent")
        reply = await api.send(bob, parent["message"]["id"], "a zebra", broadcast=True)
        await api.services.housekeeper.indexing.index_delivered()
        assert len(await found(api, group, "zebra")) == 1

        await api.edit(bob, reply["message"]["id"], "a giraffe")
        await api.wait_until_idle()
        await api.services.housekeeper.indexing.index_delivered()

        assert len(await found(api, group, "giraffe")) == 1
        assert (await completeness(api)).waiting.messages == []
