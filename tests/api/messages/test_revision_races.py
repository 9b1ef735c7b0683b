"""Concurrent edits and recalls, and loads of the state that they change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from store.base.ids import ConversationId, MessageId, UserId
from store.previews.embed_updates import NewText
from store.redis.cache import Call
from tests.api.client import EDIT, LIVE_MESSAGES, RECALL, Api, Json, Subscriber, gather_all, private_id
from tests.api.device import ApiDevice
from tests.api.events import current_cursor, read_missed_events
from tests.api.paused_step import PausedStep
from tests.api.revisions import count_outbox_entries, read_everywhere


async def read_events(subscribers: Sequence[Subscriber], is_last: Callable[[list[Json]], bool]) -> list[list[Json]]:
    """Read each subscriber's events until `is_last` is true of them, then the events that come shortly after."""
    found = []
    for subscriber in subscribers:
        events = [await subscriber.next()]
        while not is_last(events):
            events.append(await subscriber.next())
        found.append(events)
    await asyncio.sleep(0.15)
    return [events + subscriber.pop_events() for events, subscriber in zip(found, subscribers, strict=True)]


def has_recall(events: list[Json]) -> bool:
    return events[-1]["__typename"] == "MessageRecalled"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_concurrent_edits_end_the_same_on_every_device(api: Api, other_api: Api, seed: int) -> None:
    rng, processes = random.Random(seed), (api, other_api)
    users = await api.create_users("alice", "bob", "carol")
    alice, *_ = users
    group = await api.create_group(*users)
    devices = [ApiDevice(process, user) for process in processes for user in users]
    for device in devices:
        await device.start()
    messages = [(await api.send(alice, group, "0"))["message"]["id"] for _ in range(2)]
    edits = [rng.choice(processes).edit(alice, message, f"{number}") for number in range(1, 11) for message in messages]
    rng.shuffle(edits)
    await gather_all(*edits)
    for device in devices:
        await device.agrees()
        assert {message["editCount"] for message in device.messages.values()} == {10}
    contents = [{id: message["content"] for id, message in device.messages.items()} for device in devices]
    assert all(device_contents == contents[0] for device_contents in contents)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
async def test_edits_concurrent_with_a_recall_show_no_content_after_it(api: Api, other_api: Api, seed: int) -> None:
    rng, processes = random.Random(seed), (api, other_api)
    users = await api.create_users("alice", "bob", "carol")
    alice, bob, _ = users
    group = await api.create_group(bob, alice, users[2])
    devices = [ApiDevice(process, user) for process in processes for user in users]
    listeners = [await process.listen(user) for process in processes for user in users]
    for device in devices:
        await device.start()
    since = {user: await current_cursor(api, user) for user in users}
    message = (await api.send(alice, group, "0"))["message"]["id"]
    calls: list[Any] = [rng.choice(processes).run(alice, EDIT, id=message, content=f"{n}") for n in range(1, 8)]
    calls += [rng.choice(processes).run(user, RECALL, id=message) for user in (alice, bob)]
    rng.shuffle(calls)
    outcomes = await gather_all(*calls)
    errors = [error["extensions"]["code"] for outcome in outcomes for error in outcome.get("errors", ())]
    assert set(errors) <= {"INVALID_INPUT"}
    for device in devices:
        await device.agrees()
        (message_shown,) = device.messages.values()
        assert (message_shown["state"], message_shown["content"]) == ("RECALLED", None)
    for events in await read_events(listeners, has_recall):
        kinds = [event["__typename"] for event in events]
        assert kinds[0] == "MessageCreated"
        # Every event after the first one with the recalled state has no content.
        recalled = [event["message"]["state"] == "RECALLED" for event in events]
        assert recalled == sorted(recalled)
        assert kinds.count("MessageRecalled") == 1
        assert [e["message"]["content"] for e in events if e["message"]["state"] == "RECALLED"] == [None] * sum(
            recalled
        )
    for user in users:
        replayed = await read_missed_events(api, user, since[user])
        assert [event["__typename"] for event in replayed] == ["MessageCreated", "MessageRecalled"]
        assert [event["message"]["content"] for event in replayed] == [None, None]


@pytest.mark.parametrize("step", ["begin", "publish_first", "_publish"])
async def test_an_edit_sent_after_a_later_recall_shows_no_content(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    since = await current_cursor(api, bob)
    sent = (await api.send(alice, bob, "secret"))["message"]
    await api.wait_until_idle()
    listeners = [await process.listen(user) for process in (api, other_api) for user in (alice, bob)]
    paused = PausedStep(api.services.app.revisions.publisher, step, monkeypatch)
    editing = asyncio.create_task(api.edit(alice, sent["id"], "secret, edited"))
    await paused.reached.wait()
    recalled = await other_api.recall(alice, sent["id"])
    paused.resume.set()
    await editing
    await api.wait_until_idle()
    for events in await read_events(listeners, has_recall):
        assert [(event["__typename"], event["message"]["content"]) for event in events] == [("MessageRecalled", None)]
    for process in (api, other_api):
        for user in (alice, bob):
            assert {result["content"] for result in (await read_everywhere(process, user, sent)).values()} == {None}
    assert [event["message"]["content"] for event in await read_missed_events(api, bob, since)] == [None, None]
    # No event is missing, so the next one is delivered without reading the log.
    monkeypatch.setattr("subscriptions.realtime.hub._REPAIR_DELAY_SECONDS", 3600)
    await api.send(alice, bob, "next")
    for listener in listeners:
        assert (await listener.next())["message"]["content"] == "next"
    assert recalled["editCount"] == 1


@pytest.mark.parametrize("step", ["begin", "publish_first", "_publish"])
async def test_an_edit_sent_after_a_later_edit_shows_the_later_content(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "0"))["message"]
    await api.wait_until_idle()
    listeners = [await process.listen(bob) for process in (api, other_api)]
    paused = PausedStep(api.services.app.revisions.publisher, step, monkeypatch)
    first = asyncio.create_task(api.edit(alice, sent["id"], "1"))
    await paused.reached.wait()
    second = await other_api.edit(alice, sent["id"], "2")
    paused.resume.set()
    assert (await first)["content"] == "1"
    for events in await read_events(listeners, lambda events: len(events) == 2):
        assert [event["__typename"] for event in events] == ["MessageUpdated"] * 2
        assert events[-1]["message"] == second
    assert {result["content"] for result in (await read_everywhere(api, bob, sent)).values()} == {"2"}


async def test_a_recall_between_the_check_and_the_write_of_an_edit_wins(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "0"))["message"]["id"]
    write = api.services.app.store.revisions.edit

    async def recall_first(*args: Any) -> Any:
        await api.recall(alice, sent)
        return await write(*args)

    monkeypatch.setattr(api.services.app.store.revisions, "edit", recall_first)
    refusal = await api.expect_refusal(alice, EDIT, id=sent, content="1")
    assert (refusal.code, refusal.field) == ("INVALID_INPUT", "messageId")
    (message,) = await api.history(bob, private_id(alice, bob))
    assert (message["state"], message["editCount"]) == ("RECALLED", 0)
    await api.wait_until_idle()
    assert await count_outbox_entries(api) == 0


async def test_the_same_edit_from_two_devices_is_applied_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "0"))["message"]["id"]
    await api.wait_until_idle()
    device = await api.listen(bob)
    store = api.services.app.store.revisions
    write, barrier = store.edit, asyncio.Barrier(2)

    async def edit_at_once(*args: Any) -> Any:
        await barrier.wait()
        return await write(*args)

    monkeypatch.setattr(store, "edit", edit_at_once)
    edits = await gather_all(*(api.edit(alice, sent, "1") for _ in range(2)))
    assert edits[0] == edits[1]
    assert edits[0]["editCount"] == 1
    assert (await device.next())["message"]["content"] == "1"
    await device.expect_no_event()


async def test_a_late_live_edit_does_not_undo_a_replayed_recall(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame with the edited content is on the bus while a client resumes and reads the recalled message."""
    alice, bob = await api.create_users("alice", "bob")
    since = await current_cursor(api, bob)
    sent = (await api.send(alice, bob, "secret"))["message"]["id"]
    await api.wait_until_idle()
    replay = other_api.services.app.replayer.since

    async def revise_then_replay(*args: Any) -> Any:
        await api.edit(alice, sent, "secret, edited")
        await api.recall(alice, sent)
        result = await replay(*args)
        return result

    monkeypatch.setattr(type(other_api.services.app.replayer), "since", lambda _, *args: revise_then_replay(*args))
    device = await other_api.subscribe(bob, LIVE_MESSAGES, since=since)
    kinds, contents = [], []
    while kinds[-1:] != ["MessageRecalled"]:
        event = await device.next()
        kinds.append(event["__typename"])
        contents.append(event.get("message", {}).get("content"))
    assert kinds == ["MessageCreated", "CaughtUp", "MessageRecalled"]
    assert contents == [None, None, None]


@pytest.mark.parametrize("revision", ["edit", "recall"])
async def test_a_head_loaded_during_a_revision_is_not_cached_stale(
    api: Api, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "before"))["message"]
    await api.wait_until_idle()
    conversations = api.services.app.store.conversations
    keys = api.services.app.store.keys.conversation(ConversationId(private_id(alice, bob)))
    await api.services.app.store.cache.one(Call("DEL", keys))
    read, has_read, may_return = conversations._loader.read, asyncio.Event(), asyncio.Event()

    async def revise_then_replay(*args: Any) -> Any:
        result = await read(*args)
        if not has_read.is_set():
            has_read.set()
            await may_return.wait()
        return result

    monkeypatch.setattr(conversations._loader, "read", revise_then_replay)
    load = asyncio.create_task(conversations.find(ConversationId(private_id(alice, bob))))
    await has_read.wait()
    revisions = api.services.app.store.revisions
    (message,) = (await api.services.app.store.messages.find_by_ids([int(sent["id"][2:])])).values()  # type: ignore[list-item]
    if revision == "edit":
        revised = await revisions.edit(message, NewText("after"), UserId(alice), 1)
    else:
        revised = await revisions.recall(message, UserId(alice), 1)
    assert revised is not None
    await api.services.app.store.cache.one(revisions.newest_message_call(revised, 1))
    may_return.set()
    head = await load
    assert head is not None
    assert head.newest == revised
    assert head.newest.text == ("after" if revision == "edit" else None)


async def test_the_head_shows_the_newest_revision_in_any_order_of_arrival(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "0"))["message"]
    await api.wait_until_idle()
    store = api.services.app.store
    (message,) = (await store.messages.find_by_ids([int(sent["id"][2:])])).values()  # type: ignore[list-item]
    versions = [await store.revisions.edit(message, NewText(f"{n}"), UserId(alice), n) for n in (1, 2)]
    versions.append(await store.revisions.recall(message, UserId(alice), 3))
    for order, expected in (((1, 0), "2"), ((0, 1), "2"), ((2, 1, 0), None)):
        for number in order:
            version = versions[number]
            assert version is not None
            await store.cache.one(store.revisions.newest_message_call(version, 1))
        head = await store.conversations.find(ConversationId(private_id(alice, bob)))
        assert head is not None
        assert head.newest is not None
        assert head.newest.text == expected


async def test_a_revision_of_an_older_message_keeps_the_last_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    old, new = [(await api.send(alice, bob, text))["message"] for text in ("old", "new")]
    await api.recall(alice, old["id"])
    assert {result["content"] for result in (await read_everywhere(api, bob, new)).values()} == {"new"}


async def put_back_into_outbox(api: Api, message: Json) -> asyncio.Event:
    """Put a message back into its outbox, as if it were in flight, until the event is set."""
    store, is_delivered = api.services.app.store, asyncio.Event()
    (result,) = (await store.messages.find_by_ids([MessageId(int(message["id"][2:]))])).values()
    outbox = store.keys.conversation(result.conversation)[2]
    fields = ("s", result.seq, "n", result.n, "c", result.conversation, "m", result.to_json())
    entry = await store.cache.one(Call("XADD", (outbox,), ("*", *fields)))

    async def remove_entry() -> None:
        await is_delivered.wait()
        await store.cache.one(Call("XDEL", (outbox,), (entry,)))

    asyncio.get_running_loop().create_task(remove_entry())
    return is_delivered


@pytest.mark.parametrize("revise", [EDIT, RECALL], ids=["edit", "recall"])
@pytest.mark.parametrize(("change", "code"), [("remove", "NOT_A_MEMBER"), ("dismiss", "NOT_FOUND")])
async def test_permission_lost_while_waiting_for_delivery_refuses_the_revision(
    api: Api, revise: str, change: str, code: str
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(bob, group, "as it was"))["message"]
    is_delivered = await put_back_into_outbox(api, message)
    arguments = {"content": "another"} if revise == EDIT else {}
    revision_call = asyncio.create_task(api.expect_refusal(bob, revise, id=message["id"], **arguments))
    await asyncio.sleep(0.05)
    await (api.remove(alice, group, bob) if change == "remove" else api.dismiss(alice, group))
    is_delivered.set()
    assert (await revision_call).code == code
    store = api.services.app.store
    (row,) = (await store.messages.find_by_ids([MessageId(int(message["id"][2:]))])).values()
    assert (row.text, row.edits, row.is_recalled) == ("as it was", 0, False)
