"""A sender suppresses the embeds of a message: previews go for good, embeds of bots stay."""

from __future__ import annotations

import asyncio

import pytest

from store.base.errors import Unreachable
from tests.api.broadcast.calls import broadcast
from tests.api.client import Api, Refusal, gather_all
from tests.api.events import current_cursor
from tests.api.paused_step import PausedStep
from tests.api.previews.site import EVENTS, SUPPRESS, FakeSite, find, send, stored_embeds, suppress, titles
from tests.api.revisions import ALL_PARTITIONS, count_outbox_entries
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.live_calls import make_thread


async def test_suppressing_removes_the_previews_for_good(api: Api, other_api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.upsert_users({"id": alice, "displayName": "Bot", "isBot": True})
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "https://site.test/a", embeds=[{"title": "given"}])
    devices = [await api.listen(user, EVENTS) for user in (alice, bob)]
    answer = await suppress(other_api, alice, sent)
    assert (titles(answer), answer["editCount"], answer["editedAt"]) == (["given"], 0, None)
    for device in devices:
        updated = await device.next()
        assert (updated["__typename"], titles(updated["message"])) == ("MessageUpdated", ["given"])
    assert titles(await find(api, bob, sent)) == ["given"]
    site.fetched.clear()
    await api.edit(alice, sent["id"], "https://site.test/b")
    await api.wait_until_idle()
    assert titles(await find(api, bob, sent)) == ["given"] and site.fetched == []
    assert "p" not in stored_embeds(api, sent)


async def test_a_second_call_changes_nothing(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for content in ("https://site.test/a", "no link"):
        sent = await send(api, alice, group, content)
        first = await suppress(api, alice, sent)
        await api.wait_until_idle()
        cursor, documents = await current_cursor(api, bob), await api.stored_hashes()
        device = await api.listen(bob, EVENTS)
        assert await suppress(api, alice, sent) == first
        await device.expect_no_event(0.05)
        assert await current_cursor(api, bob) == cursor
        assert await api.stored_hashes() == documents


async def test_previews_that_come_later_are_suppressed(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(bob, EVENTS)
    site.hold()
    sent = (await api.send(alice, group, "https://site.test/a"))["message"]
    await site.asked.wait()
    assert (await suppress(api, alice, sent))["embeds"] == []
    site.answers.set()
    await api.wait_until_idle()
    assert (await device.next())["__typename"] == "MessageCreated"
    await device.expect_no_event(0.05)
    assert (await find(api, bob, sent))["embeds"] == []
    assert stored_embeds(api, sent)["s"] is True and "p" not in stored_embeds(api, sent)
    assert await count_outbox_entries(api) == 0


async def test_an_edit_that_began_before_does_not_bring_previews_back(
    api: Api, site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "hello")
    paused = PausedStep(api.services.app.store.revisions, "edit", monkeypatch)
    edit = asyncio.create_task(api.edit(alice, sent["id"], "https://site.test/a"))
    await paused.reached.wait()
    await suppress(api, alice, sent)
    paused.resume.set()
    await edit
    await api.wait_until_idle()
    assert (await find(api, bob, sent))["embeds"] == [] and site.fetched == []
    assert "p" not in stored_embeds(api, sent)


async def test_a_message_without_previews_is_not_published_if_the_server_dies(
    api: Api, site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "no link")

    async def die(*_: object) -> None:
        raise Unreachable("the server has died")

    device = await api.listen(bob, EVENTS)
    with monkeypatch.context() as patch:
        # The step after the change, before its entry in the outbox is removed.
        patch.setattr(api.services.app.revisions.publisher, "find", die)
        assert (await api.expect_refusal(alice, SUPPRESS, id=sent["id"])).code == "UNAVAILABLE"
    assert stored_embeds(api, sent)["s"] is True
    assert await count_outbox_entries(api) == 1
    await api.services.housekeeper.sweep(ALL_PARTITIONS, -60_000)
    await device.expect_no_event(0.05)


async def test_many_calls_at_once_are_one_change(api: Api, other_api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "https://site.test/a")
    device = await api.listen(bob, EVENTS)
    answers = await gather_all(*(suppress(server, alice, sent) for server in (api, other_api) * 3))
    assert all(answer["embeds"] == [] for answer in answers)
    await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
    assert (await device.next())["__typename"] == "MessageUpdated"
    await device.expect_no_event(0.1)


@pytest.mark.parametrize("named", ["reply", "copy"])
async def test_reply_and_copy_are_suppressed_together(api: Api, site: FakeSite, named: str) -> None:
    place = await make_thread(api, "group")
    made = await broadcast(api, place.second, place, "https://site.test/a")
    message = {"reply": made.reply, "copy": made.copy}[named]
    answer = await suppress(api, place.second, message)
    assert (answer["id"], answer["embeds"]) == (message["id"], [])
    assert [titles(await find(api, place.first, shown)) for shown in (made.reply, made.copy)] == [[], []]


async def test_only_the_sender_may_suppress(api: Api, site: FakeSite) -> None:
    workspace = await create_sample_channels(api)
    sent = await send(api, workspace.member, str(workspace.general), "https://site.test/a")
    for user, refusal in (
        (workspace.owner, Refusal("FORBIDDEN", "messageId")),
        (workspace.outsider, Refusal("NOT_FOUND", "messageId")),
    ):
        assert await api.expect_refusal(user, SUPPRESS, id=sent["id"]) == refusal
    assert titles(await find(api, workspace.other, sent)) == ["a"]
    assert await api.expect_refusal(workspace.member, SUPPRESS, id="m_1") == Refusal("NOT_FOUND", "messageId")


async def test_a_recalled_message_has_nothing_to_suppress(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "https://site.test/a")
    await api.recall(alice, sent["id"])
    documents = await api.stored_hashes()
    assert await api.expect_refusal(alice, SUPPRESS, id=sent["id"]) == Refusal("INVALID_INPUT", "messageId")
    assert await api.stored_hashes() == documents


async def test_a_message_sent_with_suppress_embeds_never_gets_previews(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "https://site.test/a", suppressEmbeds=True)
    await api.edit(alice, sent["id"], "https://site.test/b")
    await api.wait_until_idle()
    assert (await find(api, bob, sent))["embeds"] == [] and site.fetched == []
