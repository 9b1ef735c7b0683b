"""A server that dies before the previews of a message are shown: others fetch them, and publish them once."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from store.base.errors import Unreachable
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind, message_from
from store.messages.outbox.outbox_entries import OutboxField
from store.messages.revision_store import RevisionKind, entry_fields, revision_from
from store.mongo.index_fields import LINKS_DUE
from store.previews.embed import Embed
from store.previews.message_embeds import MessageEmbeds
from tests.api.client import Api, wait_until
from tests.api.conftest import OpenApi
from tests.api.events import current_cursor
from tests.api.messages.test_revision_delivery import STEPS, stop_server_after
from tests.api.previews.site import EVENTS, FakeSite, find, send, stored_embeds, titles
from tests.api.revisions import ALL_PARTITIONS, count_outbox_entries

_LEASE = "subscriptions.delivery.previews.preview_worker.LEASE_MS"


async def test_links_that_a_dead_server_did_not_fetch_are_fetched_by_another(
    api: Api, open_api: OpenApi, site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(bob, EVENTS)
    stuck = FakeSite()
    stuck.hold()
    async with open_api("main") as dying:
        stuck.serve(dying, monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(_LEASE, 0)
            sent = (await dying.send(alice, group, "https://site.test/a"))["message"]
        await stuck.asked.wait()
    assert (await find(api, bob, sent))["embeds"] == []

    async def has_previews() -> bool:
        await api.services.app.previews.continue_due()
        return titles(await find(api, bob, sent)) == ["a"]

    await wait_until(has_previews)
    assert [event["__typename"] for event in await device.take(2)] == ["MessageCreated", "MessageUpdated"]
    await device.expect_no_event(0.05)
    assert (site.fetched, stuck.fetched) == (["https://site.test/a"], ["https://site.test/a"])


async def test_links_are_left_to_the_server_that_has_the_lease(
    api: Api, other_api: Api, site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.serve(other_api, monkeypatch)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    site.hold()
    sent = (await api.send(alice, group, "https://site.test/a"))["message"]
    await site.asked.wait()
    await other_api.services.app.previews.continue_due()
    assert sent["id"] not in {f"m_{id}" for id in other_api.services.app.previews._jobs}, "its server has time"
    # Housekeeping takes none meanwhile.
    for server in (api, other_api):
        monkeypatch.setattr(server.services.app.previews, "is_enabled", False)
    api.database["messages"].update_one({"c": group, "s": sent["seq"]}, {"$set": {"em.p": 1}})
    store, now_ms = api.services.app.store, api.services.app.store.clock.now_ms()
    taken = await asyncio.gather(*(store.embeds.take_due(now_ms, now_ms + 30_000, 10) for _ in range(4)))
    assert sum(message.public_id == sent["id"] for found in taken for message in found) == 1
    site.answers.set()
    await api.wait_until_idle()


async def test_links_of_a_busy_site_are_tried_again_for_some_minutes(
    api: Api, site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    previews, asked = api.services.app.previews, 0

    async def is_busy(link: str) -> None:
        nonlocal asked
        asked += 1
        raise Unreachable("too many requests wait for the host")

    with monkeypatch.context() as patch:
        patch.setattr(_LEASE, 0)
        patch.setattr(previews, "find_preview", is_busy)
        first, second = [await send(api, alice, group, f"https://site.test/{name}") for name in "ab"]
        assert "p" in stored_embeds(api, first) and asked >= 2
        patch.setattr("subscriptions.delivery.previews.preview_worker._GIVE_UP_MS", -1)

        async def has_given_up() -> bool:
            await previews.continue_due()
            return stored_embeds(api, first) == stored_embeds(api, second) == {}

        await wait_until(has_given_up)
    third = await send(api, alice, group, "https://site.test/c")
    assert [titles(await find(api, bob, sent)) for sent in (first, third)] == [[], ["c"]]


async def test_a_link_that_always_fails_is_given_up(api: Api, site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    previews = api.services.app.previews

    async def fail(link: str) -> Embed | None:
        if link.endswith("/bad"):
            raise ValueError("a defect")
        return await site.find_preview(link)

    with monkeypatch.context() as patch:
        patch.setattr(_LEASE, 0)
        patch.setattr(previews, "find_preview", fail)
        sent = await send(api, alice, group, "https://site.test/bad https://site.test/good")
        assert "p" in stored_embeds(api, sent), "it may be a fault of a moment"
        patch.setattr("subscriptions.delivery.previews.preview_worker._GIVE_UP_MS", -1)

        async def has_given_up() -> bool:
            await previews.continue_due()
            return "p" not in stored_embeds(api, sent)

        await wait_until(has_given_up)
    assert titles(await find(api, bob, sent)) == ["good"]


async def test_messages_are_not_searched_for_links_without_the_index(open_api: OpenApi) -> None:
    async with open_api("no index") as api:
        store = api.services.app.store
        assert await store.embeds.take_due(1, 2, 10) == []
        api.database["messages"].drop_index([(LINKS_DUE, 1)])
        with pytest.raises(Unreachable):
            await store.embeds.take_due(1, 2, 10)


async def test_what_is_marked_and_recalled_is_forgotten(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "hello")
    await api.recall(alice, sent["id"])
    api.database["messages"].update_one({"c": group, "s": sent["seq"]}, {"$set": {"em.p": 1}})

    async def is_forgotten() -> bool:
        await api.services.app.previews.continue_due()
        return "p" not in stored_embeds(api, sent)

    await wait_until(is_forgotten)
    assert site.fetched == []


@pytest.mark.parametrize("step", ["stored", *(pytest.param(s, marks=pytest.mark.long) for s in STEPS if s != "stored")])
async def test_previews_that_a_dead_server_stored_are_published_once(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with open_api(f"previews {step}") as dead, open_api(f"previews {step}") as living:
        site = FakeSite()
        for server in (dead, living):
            await server.services.housekeeper.close()
            site.serve(server, monkeypatch)
        alice, bob, carol = await living.create_users("alice", "bob", "carol")
        group = await living.create_group(alice, bob, carol)
        site.hold()
        sent = (await dead.send(alice, group, "https://site.test/a"))["message"]
        await dead.services.app.previews.close()
        site.answers.set()
        (message,) = await dead.services.app.store.messages.list_between(
            ConversationId(group), [(1, 1)], 1, newest_first=True
        )
        since = await current_cursor(living, bob)
        device = await living.listen(bob, EVENTS)
        await stop_server_after(dead, monkeypatch, step, dead.services.app.previews._fetch(message))
        is_stored = step != "announced"
        assert await living.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == int(is_stored)
        await living.wait_until_idle()
        if not is_stored:
            now_ms = living.services.app.store.clock.now_ms()
            monkeypatch.setattr(living.services.app.store.clock, "now_ms", lambda: now_ms + 60_000)
            await living.services.app.previews.continue_due()
            await living.wait_until_idle()
        updated = await device.next()
        assert (updated["__typename"], titles(updated["message"])) == ("MessageUpdated", ["a"])
        await device.expect_no_event(0.08)
        resumed = await living.subscribe(bob, EVENTS, since=since)
        assert [event["__typename"] for event in await resumed.take(2)] == ["MessageUpdated", "CaughtUp"]
        assert titles(await find(living, carol, sent)) == ["a"]
        assert stored_embeds(living, sent)["v"] == 1
        assert await count_outbox_entries(living) == int(not is_stored)


def test_servers_that_do_not_know_embeds_take_their_change_for_an_edit() -> None:
    conversation = ConversationId("g_1")
    message = Message(MessageId(7), conversation, UserId("ann"), MessageKind.TEXT, "hi", 3, 2, edits=4)
    message = message._replace(embeds=MessageEmbeds(version=2))
    parts = [
        str(part).encode() if not isinstance(part, bytes) else part
        for part in entry_fields(message, RevisionKind.EMBEDS)
    ]
    fields = dict(zip(parts[::2], parts[1::2], strict=True))
    revision = revision_from("1-1", fields)
    assert revision is not None and (revision.kind, revision.version_before) == (RevisionKind.EMBEDS, 2)
    assert not revision.is_applied_to(message)
    assert revision.is_applied_to(message._replace(embeds=MessageEmbeds(version=3)))
    del fields[OutboxField.EMBEDS.encode()]
    known = revision_from("1-1", fields)
    assert known is not None and known.kind is RevisionKind.EDIT and known.is_applied_to(message)
    unchanged = message_from(orjson.loads(message.to_json()))
    assert unchanged == message
