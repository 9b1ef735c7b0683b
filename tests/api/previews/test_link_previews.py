"""Links in messages get previews: published as MessageUpdated, stored once, following edits."""

from __future__ import annotations

import asyncio

import pytest

from store.workspaces.permissions import Permission
from tests.api.broadcast.calls import broadcast, copies_of
from tests.api.client import SYNC, Api
from tests.api.events import current_cursor
from tests.api.paused_step import PausedStep
from tests.api.previews.site import EVENTS, LOOK, FakeSite, find, send, stored_embeds, titles
from tests.api.revisions import count_outbox_entries
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.live_calls import make_thread


async def test_a_link_is_shown_to_all_members_after_the_message(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.wait_until_idle()
    since = await current_cursor(api, bob)
    devices = [await api.listen(user, EVENTS) for user in (alice, bob)]
    sent = (await api.send(alice, group, "see https://site.test/a and https://site.test/b"))["message"]
    for device in devices:
        created, updated = await device.take(2)
        assert (created["__typename"], created["message"]["embeds"]) == ("MessageCreated", [])
        assert (updated["__typename"], titles(updated["message"])) == ("MessageUpdated", ["a", "b"])
        assert (updated["message"]["editCount"], updated["message"]["editedAt"]) == (0, None)
        await device.expect_no_event(0.05)
    (first, second) = updated["message"]["embeds"]
    assert (first["type"], first["url"], second["url"]) == ("LINK", "https://site.test/a", "https://site.test/b")
    assert (first["fields"], first["description"], first["image"]) == ([], None, None)
    assert titles(await find(api, bob, sent)) == ["a", "b"]
    assert (await api.data(bob, SYNC, since=since))["syncSessions"]["sessions"][0]["lastMessage"]["id"] == sent["id"]
    again = await api.subscribe(bob, EVENTS, since=since)
    replayed = await again.take(3)
    assert [event["__typename"] for event in replayed] == ["MessageCreated", "MessageUpdated", "CaughtUp"]
    assert titles(replayed[1]["message"]) == ["a", "b"]
    await api.wait_until_idle()
    assert stored_embeds(api, sent).keys() == {"e", "v"}
    assert await count_outbox_entries(api) == 0


async def test_the_newest_message_of_a_session_shows_its_previews_on_all_servers(
    api: Api, other_api: Api, site: FakeSite
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await send(api, alice, group, "https://site.test/a")
    query = "query ($id: ID!) { conversation(id: $id) { lastMessage { embeds { title } } } }"
    for server in (api, other_api):
        found = (await server.data(bob, query, id=group))["conversation"]["lastMessage"]
        assert titles(found) == ["a"]


async def test_a_link_without_a_preview_changes_nothing(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(bob, EVENTS)
    site.hold()
    sent = (await api.send(alice, group, "https://site.test/nothing"))["message"]
    assert stored_embeds(api, sent).keys() == {"p"}
    assert (await device.next())["__typename"] == "MessageCreated"
    before = (await api.own_session(bob, group))["activeTs"]
    site.answers.set()
    await api.wait_until_idle()
    await device.expect_no_event(0.05)
    assert stored_embeds(api, sent) == {}
    assert (await api.own_session(bob, group))["activeTs"] == before
    assert await count_outbox_entries(api) == 0


async def test_no_links_are_fetched_where_none_are_shown(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    private = await send(api, alice, bob, "https://site.test/a")
    reply = await send(api, bob, private["id"], "https://site.test/a")
    plain = await send(api, alice, group, "no link")
    suppressed = await send(api, alice, group, "https://site.test/a", suppressEmbeds=True)
    code = await send(api, alice, group, "`https://site.test/a`")
    assert site.fetched == []
    for message in (private, reply, plain, suppressed, code):
        assert (await find(api, alice, message))["embeds"] == []
        assert "p" not in stored_embeds(api, message)


async def test_links_in_channels_need_the_right_when_they_are_sent(api: Api, site: FakeSite) -> None:
    workspace = await create_sample_channels(api)
    member, general = workspace.member, str(workspace.general)
    looking = await api.subscribe(workspace.other, LOOK, channels=[{"id": general}])
    await looking.next()
    shown = await send(api, member, general, "https://site.test/a")
    created, updated = await looking.take(2)
    assert (created["change"], updated["change"]) == ("CREATED", "UPDATED")
    assert titles(updated["message"]) == ["a"] and updated["rev"] > created["rev"]
    assert titles(await find(api, member, shown)) == ["a"]
    reply = await send(api, member, shown["id"], "https://site.test/r")
    assert titles(await find(api, member, reply)) == ["r"]
    await workspace.overwrite(workspace.general, member, Permission.EMBED_LINKS)
    for content in ("https://site.test/b", "https://site.test/c"):
        hidden = await send(api, member, general, content)
        assert (await find(api, member, hidden))["embeds"] == [] and stored_embeds(api, hidden) == {}
    hidden_reply = await send(api, member, shown["id"], "https://site.test/d")
    assert (await find(api, member, hidden_reply))["embeds"] == []
    edited = await api.edit(member, shown["id"], "https://site.test/a https://site.test/e")
    await api.wait_until_idle()
    assert titles(await find(api, member, edited)) == ["a"], "links that were shown before stay"
    assert site.fetched == ["https://site.test/a", "https://site.test/r"]


async def test_an_edit_needs_the_right_at_the_moment_when_it_is_announced(
    api: Api, site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await create_sample_channels(api)
    sent = await send(api, workspace.member, str(workspace.general), "hello")
    paused = PausedStep(api.services.app.store.revisions, "announce_in_channel", monkeypatch, once=True)
    edit = asyncio.create_task(api.edit(workspace.member, sent["id"], "https://site.test/a"))
    await paused.reached.wait()
    await workspace.overwrite(workspace.general, workspace.member, Permission.EMBED_LINKS)
    paused.resume.set()
    assert (await edit)["editCount"] == 1
    await api.wait_until_idle()
    assert (await find(api, workspace.other, sent))["embeds"] == [] and site.fetched == []


async def test_an_edit_changes_the_previews_of_changed_links_only(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "https://site.test/a https://site.test/b")
    site.fetched.clear()
    device = await api.listen(bob, EVENTS)
    site.hold()
    await api.edit(alice, sent["id"], "https://site.test/b https://site.test/c")
    updated = await device.next()
    assert titles(updated["message"]) == ["b"], "the preview of a link that is gone goes with it"
    site.answers.set()
    updated = await device.next()
    assert (titles(updated["message"]), updated["message"]["editCount"]) == (["b", "c"], 1)
    assert site.fetched == ["https://site.test/c"]
    await api.edit(alice, sent["id"], "again https://site.test/b https://site.test/c")
    assert titles((await device.next())["message"]) == ["b", "c"]
    await api.edit(alice, sent["id"], "no link")
    assert (await device.next())["message"]["embeds"] == []
    await api.wait_until_idle()
    await device.expect_no_event(0.05)
    assert stored_embeds(api, sent).get("e") == []


async def test_an_edit_during_the_fetch_is_not_followed_by_old_previews(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(bob, EVENTS)
    site.hold()
    sent = (await api.send(alice, group, "https://site.test/old https://site.test/both"))["message"]
    await site.asked.wait()
    await api.edit(alice, sent["id"], "https://site.test/both https://site.test/new")
    site.answers.set()
    await api.wait_until_idle()
    assert titles(await find(api, bob, sent)) == ["both", "new"]
    events = await device.take(3)
    assert [titles(event["message"]) for event in events] == [[], [], ["both", "new"]]
    assert sorted(site.fetched) == sorted(f"https://site.test/{name}" for name in ("old", "both", "new"))


async def test_a_recall_during_the_fetch_shows_nothing(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(bob, EVENTS)
    site.hold()
    sent = (await api.send(alice, group, "https://site.test/a"))["message"]
    await site.asked.wait()
    await api.recall(alice, sent["id"])
    site.answers.set()
    await api.wait_until_idle()
    kinds = [event["__typename"] for event in await device.take(2)]
    assert kinds == ["MessageCreated", "MessageRecalled"]
    await device.expect_no_event(0.05)
    assert stored_embeds(api, sent) == {}, "nothing is left to fetch"


async def test_a_recall_withholds_the_embeds(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = await send(api, alice, group, "https://site.test/a")
    device = await api.listen(bob, EVENTS)
    await api.recall(alice, sent["id"])
    assert (await device.next())["message"]["embeds"] == []
    assert (await find(api, alice, sent))["embeds"] == []


@pytest.mark.parametrize("kind", ["group", "channel"])
async def test_reply_and_copy_show_the_same_embeds(api: Api, other_api: Api, site: FakeSite, kind: str) -> None:
    place = await make_thread(api, kind)
    made = await broadcast(api, place.second, place, "https://site.test/a")
    assert site.fetched == ["https://site.test/a"], "one message in two places is fetched once"
    for server in (api, other_api):
        for message in (made.reply, made.copy):
            assert titles(await find(server, place.first, message)) == ["a"]
    await api.edit(place.second, made.reply["id"], "https://site.test/b")
    await api.wait_until_idle()
    assert [titles(await find(api, place.first, message)) for message in (made.reply, made.copy)] == [["b"], ["b"]]
    assert "p" not in stored_embeds(api, made.copy)
    assert len(await copies_of(api, place.second, place, made.reply["id"])) == 1


async def test_who_looks_at_a_thread_without_following_it_gets_the_previews(api: Api, site: FakeSite) -> None:
    place = await make_thread(api, "group")
    looking = await api.subscribe(place.third, LOOK, channels=[{"id": place.id}])
    await looking.next()
    await send(api, place.second, place.parent["id"], "https://site.test/a")
    created, updated = await looking.take(2)
    assert (created["change"], updated["change"]) == ("CREATED", "UPDATED")
    assert [titles(event["message"]) for event in (created, updated)] == [[], ["a"]]


async def test_two_servers_store_the_previews_of_a_message_once(
    api: Api, other_api: Api, site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.serve(other_api, monkeypatch)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(bob, EVENTS)
    site.hold()
    sent = (await api.send(alice, group, "https://site.test/a"))["message"]
    await site.asked.wait()
    store = other_api.services.app.store
    (stored,) = (await store.messages.find_by_ids([int(sent["id"][2:])])).values()  # type: ignore[list-item]
    other_api.services.app.previews.begin(stored)
    await asyncio.sleep(0)
    site.answers.set()
    await asyncio.gather(api.wait_until_idle(), other_api.wait_until_idle())
    assert [event["__typename"] for event in await device.take(2)] == ["MessageCreated", "MessageUpdated"]
    await device.expect_no_event(0.1)
    assert stored_embeds(api, sent)["v"] == 1
