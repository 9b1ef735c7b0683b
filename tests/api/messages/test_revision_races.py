"""Edits and recalls that meet each other, and the loading of what they change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from store.base.ids import ConversationId, MessageId, UserId
from store.redis.cache import Call
from tests.api.client import EDIT, LIVE_MESSAGES, RECALL, Api, Json, gather_all, private_id
from tests.api.device import ApiDevice
from tests.api.revisions import (
    PausedRevisions,
    count_outbox_entries,
    current_cursor,
    read_everywhere,
    read_missed_events,
)


async def events_of(subscribers: Sequence[Any]) -> list[list[Json]]:
    """What each of them has heard by the time that nothing more comes."""
    await asyncio.sleep(0.15)
    return [subscriber.pop_events() for subscriber in subscribers]


# --- each other


@pytest.mark.parametrize("seed", range(3))
async def test_edits_at_once_through_two_processes_end_the_same_on_every_device(
    api: Api, other_api: Api, seed: int
) -> None:
    chance, processes = random.Random(seed), (api, other_api)
    people = await api.create_users("alice", "bob", "carol")
    alice, *_ = people
    group = await api.create_group(*people)
    devices = [ApiDevice(process, user) for process in processes for user in people]
    for device in devices:
        await device.start()
    messages = [(await api.send(alice, group, "0"))["message"]["id"] for _ in range(2)]
    edits = [
        chance.choice(processes).edit(alice, message, f"{number}") for number in range(1, 11) for message in messages
    ]
    chance.shuffle(edits)
    await gather_all(*edits)
    for device in devices:
        await device.agrees()
        assert {message["editCount"] for message in device.messages.values()} == {10}
    contents = [{id: message["content"] for id, message in device.messages.items()} for device in devices]
    assert all(one == contents[0] for one in contents)


@pytest.mark.parametrize("seed", range(4))
async def test_edits_that_meet_a_recall_leave_nothing_of_the_content_behind_it(
    api: Api, other_api: Api, seed: int
) -> None:
    chance, processes = random.Random(seed), (api, other_api)
    people = await api.create_users("alice", "bob", "carol")
    alice, bob, _ = people
    group = await api.create_group(bob, alice, people[2])
    devices = [ApiDevice(process, user) for process in processes for user in people]
    listeners = [await process.listen(user) for process in processes for user in people]
    for device in devices:
        await device.start()
    since = {user: await current_cursor(api, user) for user in people}
    message = (await api.send(alice, group, "0"))["message"]["id"]
    acts: list[Any] = [chance.choice(processes).run(alice, EDIT, id=message, content=f"{n}") for n in range(1, 8)]
    acts += [chance.choice(processes).run(user, RECALL, id=message) for user in (alice, bob)]
    chance.shuffle(acts)
    outcomes = await gather_all(*acts)
    errors = [error["extensions"]["code"] for outcome in outcomes for error in outcome.get("errors", ())]
    assert set(errors) <= {"INVALID_INPUT"}
    for device in devices:
        await device.agrees()
        (shown,) = device.messages.values()
        assert (shown["state"], shown["content"]) == ("RECALLED", None)
    for events in await events_of(listeners):
        kinds = [event["__typename"] for event in events]
        assert kinds[0] == "MessageCreated"
        # Whatever comes after the first word of the recall has no content.
        recalled = [event["message"]["state"] == "RECALLED" for event in events]
        assert recalled == sorted(recalled)
        assert kinds.count("MessageRecalled") == 1
        assert [e["message"]["content"] for e in events if e["message"]["state"] == "RECALLED"] == [None] * sum(
            recalled
        )
    for user in people:
        replayed = await read_missed_events(api, user, since[user])
        assert [event["__typename"] for event in replayed] == ["MessageCreated", "MessageRecalled"]
        assert [event["message"]["content"] for event in replayed] == [None, None]


@pytest.mark.parametrize("step", ["_begin", "_publish_first", "_publish"])
async def test_an_edit_that_is_told_after_a_later_recall_shows_nothing(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    since = await current_cursor(api, bob)
    sent = (await api.send(alice, bob, "secret"))["message"]
    await api.wait_until_idle()
    listeners = [await process.listen(user) for process in (api, other_api) for user in (alice, bob)]
    slowly = PausedRevisions(api, monkeypatch, step)
    editing = asyncio.create_task(api.edit(alice, sent["id"], "secret, edited"))
    await slowly.reached.wait()
    recalled = await other_api.recall(alice, sent["id"])
    slowly.resume.set()
    await editing
    await api.wait_until_idle()
    for events in await events_of(listeners):
        assert [(event["__typename"], event["message"]["content"]) for event in events] == [("MessageRecalled", None)]
    for process in (api, other_api):
        for user in (alice, bob):
            assert {found["content"] for found in (await read_everywhere(process, user, sent)).values()} == {None}
    assert [event["message"]["content"] for event in await read_missed_events(api, bob, since)] == [None, None]
    # Nothing is missing in between: what comes next comes at once.
    await api.send(alice, bob, "next")
    for listener in listeners:
        assert (await listener.next(0.04))["message"]["content"] == "next"
    assert recalled["editCount"] == 1


@pytest.mark.parametrize("step", ["_begin", "_publish_first", "_publish"])
async def test_an_edit_that_is_told_after_a_later_one_shows_what_came_of_both(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "0"))["message"]
    await api.wait_until_idle()
    listeners = [await process.listen(bob) for process in (api, other_api)]
    slowly = PausedRevisions(api, monkeypatch, step)
    first = asyncio.create_task(api.edit(alice, sent["id"], "1"))
    await slowly.reached.wait()
    second = await other_api.edit(alice, sent["id"], "2")
    slowly.resume.set()
    assert (await first)["content"] == "1"
    for events in await events_of(listeners):
        assert [event["__typename"] for event in events] == ["MessageUpdated"] * 2
        assert events[-1]["message"] == second
    assert {found["content"] for found in (await read_everywhere(api, bob, sent)).values()} == {"2"}


async def test_a_recall_that_comes_between_reading_and_writing_wins(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "0"))["message"]["id"]
    write = api.services.app.store.revisions.edit

    async def late(*args: Any) -> Any:
        await api.recall(alice, sent)
        return await write(*args)

    monkeypatch.setattr(api.services.app.store.revisions, "edit", late)
    refusal = await api.expect_refusal(alice, EDIT, id=sent, content="1")
    assert (refusal.code, refusal.field) == ("INVALID_INPUT", "messageId")
    (message,) = await api.history(bob, private_id(alice, bob))
    assert (message["state"], message["editCount"]) == ("RECALLED", 0)
    await api.wait_until_idle()
    assert await count_outbox_entries(api) == 0


async def test_the_same_edit_from_two_devices_at_once_is_one(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "0"))["message"]["id"]
    await api.wait_until_idle()
    device = await api.listen(bob)
    store = api.services.app.store.revisions
    write, both = store.edit, asyncio.Barrier(2)

    async def together_with_the_other(*args: Any) -> Any:
        await both.wait()
        return await write(*args)

    monkeypatch.setattr(store, "edit", together_with_the_other)
    edits = await gather_all(*(api.edit(alice, sent, "1") for _ in range(2)))
    assert edits[0] == edits[1]
    assert edits[0]["editCount"] == 1
    assert (await device.next())["message"]["content"] == "1"
    await device.expect_no_event()


async def test_a_live_edit_from_before_does_not_undo_what_was_missed(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame is on its way with the content as it was, while somebody comes back and is shown the recalled message."""
    alice, bob = await api.create_users("alice", "bob")
    since = await current_cursor(api, bob)
    sent = (await api.send(alice, bob, "secret"))["message"]["id"]
    await api.wait_until_idle()
    replay = other_api.services.app.replayer.since

    async def reading(*args: Any) -> Any:
        await api.edit(alice, sent, "secret, edited")
        await api.recall(alice, sent)
        found = await replay(*args)
        return found

    monkeypatch.setattr(type(other_api.services.app.replayer), "since", lambda _, *args: reading(*args))
    device = await other_api.subscribe(bob, LIVE_MESSAGES, since=since)
    kinds, contents = [], []
    while kinds[-1:] != ["MessageRecalled"]:
        event = await device.next()
        kinds.append(event["__typename"])
        contents.append(event.get("message", {}).get("content"))
    assert kinds == ["MessageCreated", "CaughtUp", "MessageRecalled"]
    assert contents == [None, None, None]


# --- the loading of what they change


@pytest.mark.parametrize("act", ["edit", "recall"])
async def test_a_head_that_is_loaded_meanwhile_is_not_stored_as_it_was(
    api: Api, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "before"))["message"]
    await api.wait_until_idle()
    conversations = api.services.app.store.conversations
    keys = api.services.app.store.keys.conversation(ConversationId(private_id(alice, bob)))
    await api.services.app.store.cache.one(Call("DEL", keys))
    read, has_read, go_on = conversations._loader._read_mongo, asyncio.Event(), asyncio.Event()

    async def reading(*args: Any) -> Any:
        found = await read(*args)
        if not has_read.is_set():
            has_read.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(conversations._loader, "_read_mongo", reading)
    loading = asyncio.create_task(conversations.find(ConversationId(private_id(alice, bob))))
    await has_read.wait()
    revisions = api.services.app.store.revisions
    (message,) = (await api.services.app.store.messages.find_by_ids([int(sent["id"][2:])])).values()  # type: ignore[list-item]
    if act == "edit":
        revised = await revisions.edit(message, "after", UserId(alice), 1)
    else:
        revised = await revisions.recall(message, 1)
    assert revised is not None
    await api.services.app.store.cache.one(revisions.newest_message_call(revised, 1))
    go_on.set()
    head = await loading
    assert head is not None
    assert head.newest == revised
    assert head.newest.text == ("after" if act == "edit" else None)


async def test_the_head_shows_the_newest_in_whatever_order_word_of_them_comes(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "0"))["message"]
    await api.wait_until_idle()
    store = api.services.app.store
    (message,) = (await store.messages.find_by_ids([int(sent["id"][2:])])).values()  # type: ignore[list-item]
    versions = [await store.revisions.edit(message, f"{n}", UserId(alice), n) for n in (1, 2)]
    versions.append(await store.revisions.recall(message, 3))
    for order, expected in (((1, 0), "2"), ((0, 1), "2"), ((2, 1, 0), None)):
        for number in order:
            version = versions[number]
            assert version is not None
            await store.cache.one(store.revisions.newest_message_call(version, 1))
        head = await store.conversations.find(ConversationId(private_id(alice, bob)))
        assert head is not None
        assert head.newest is not None
        assert head.newest.text == expected


async def test_a_revision_of_an_older_message_leaves_the_newest_alone(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    old, new = [(await api.send(alice, bob, text))["message"] for text in ("old", "new")]
    await api.recall(alice, old["id"])
    assert {found["content"] for found in (await read_everywhere(api, bob, new)).values()} == {"new"}


# --- what changes while a message is waited for


async def delivered_late(api: Api, message: Json) -> asyncio.Event:
    """Puts a message back into its outbox, as if it were still on its way, until the event is set."""
    store, gone = api.services.app.store, asyncio.Event()
    (found,) = (await store.messages.find_by_ids([MessageId(int(message["id"][2:]))])).values()
    outbox = store.keys.conversation(found.conversation)[2]
    fields = ("s", found.seq, "n", found.n, "c", found.conversation, "m", found.to_json())
    entry = await store.cache.one(Call("XADD", (outbox,), ("*", *fields)))

    async def take() -> None:
        await gone.wait()
        await store.cache.one(Call("XDEL", (outbox,), (entry,)))

    asyncio.get_running_loop().create_task(take())
    return gone


@pytest.mark.parametrize("revise", [EDIT, RECALL], ids=["edit", "recall"])
@pytest.mark.parametrize(("end", "code"), [("remove", "NOT_A_MEMBER"), ("dismiss", "NOT_FOUND")])
async def test_who_loses_the_right_while_a_message_is_waited_for_revises_nothing(
    api: Api, revise: str, end: str, code: str
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(bob, group, "as it was"))["message"]
    gone = await delivered_late(api, message)
    more = {"content": "another"} if revise == EDIT else {}
    revising = asyncio.create_task(api.expect_refusal(bob, revise, id=message["id"], **more))
    await asyncio.sleep(0.05)
    await (api.remove(alice, group, bob) if end == "remove" else api.dismiss(alice, group))
    gone.set()
    assert (await revising).code == code
    store = api.services.app.store
    (kept,) = (await store.messages.find_by_ids([MessageId(int(message["id"][2:]))])).values()
    assert (kept.text, kept.edits, kept.is_recalled) == ("as it was", 0, False)
