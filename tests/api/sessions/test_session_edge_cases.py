"""What happens to sessions at the edges: many of them, answers that are lost, messages under way."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from resolvers.groups import group_creation
from store.base.errors import Unreachable
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind, ReservedMessage
from tests.api.client import CREATE_GROUP, LIVE_SESSIONS, SYNC, Api, gather_all, private_id, wait_until
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import MARK_READ
from tests.api.sub_biz import create_shop_conversations
from tests.clock import ManualClock


async def test_any_number_of_sessions_can_be_asked_for_by_name(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    talk = ConversationId(private_id(alice, bob))
    names = [*(ConversationId(f"g_{number}") for number in range(9_000)), talk]
    found = await api.services.app.store.sessions.find_many(UserId(alice), names)
    assert [session.conversation for session in found.sessions] == [talk]


async def test_all_pages_of_a_first_synchronisation_hold_valid_sessions_only(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(5)))
    for other in others:
        await api.send(other, alice)
    await api.delete(alice, private_id(alice, others[0]))
    page = (await api.data(alice, SYNC, first=2))["syncSessions"]
    told = [session["conversation"]["id"] for session in page["sessions"]]
    # What is deleted meanwhile is told though: somebody may have been shown it.
    await api.delete(alice, told[0])
    while page["hasMore"]:
        page = (await api.data(alice, SYNC, first=2, since=page["cursor"]))["syncSessions"]
        assert not page["reset"]
        told += [f"{session['status']} {session['conversation']['id']}" for session in page["sessions"]]
    assert told[-1] == f"INVALID {told[0]}"
    assert all(f"INVALID {private_id(alice, others[0])}" != name for name in told)
    assert len(told) == 5
    assert (await api.data(alice, SYNC, since=page["cursor"]))["syncSessions"]["sessions"] == []


async def test_reading_up_to_what_is_not_durable_yet_reads_what_is(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    talk = ConversationId(private_id(alice, bob))
    for _ in range(3):
        await api.send(bob, alice)
    app = api.services.app
    late = Message(MessageId(app.store.ids.next()), talk, UserId(bob), MessageKind.TEXT, "under way")
    place = await app.store.outbox.reserve(late)
    assert isinstance(place, ReservedMessage)
    await api.send(bob, alice)
    assert (await api.mark_read(alice, talk, 4))["readSeq"] == 3
    await app.delivery.send(place)
    await api.wait_until_idle()
    assert (await api.unread(alice, talk), await api.total_unread(alice)) == (2, 2)
    assert (await api.mark_read(alice, talk, 4))["unreadCount"] == 1


async def test_senders_learn_of_a_reading_though_mongodbs_answer_to_it_was_lost(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    talk = private_id(alice, bob)
    listener = await api.listen(bob)
    rows = type(api.services.app.store.session_rows)
    write = rows.write

    async def lost(*args: Any) -> None:
        await write(*args)
        raise Unreachable("the answer was lost")

    monkeypatch.setattr(rows, "write", lost)
    assert (await api.expect_refusal(alice, MARK_READ, id=talk)).code == "UNAVAILABLE"
    monkeypatch.undo()
    assert (await api.mark_read(alice, talk))["unreadCount"] == 0
    assert (await listener.next())["status"] == "READ"
    assert (await api.own_session(bob, talk))["peerReadSeq"] == 1


async def test_senders_learn_of_a_reading_once_the_databases_answer_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    listener = await api.listen(bob)
    messages = type(api.services.app.store.messages)
    list_senders, failed = messages.list_senders, list[object]()

    async def failing(*args: Any) -> Any:
        if len(failed) < 2:
            failed.append(args)
            raise Unreachable("an election")
        return await list_senders(*args)

    monkeypatch.setattr(messages, "list_senders", failing)
    await api.mark_read(alice, private_id(alice, bob))
    assert (await listener.next())["status"] == "READ"
    assert len(failed) == 2


async def test_a_group_whose_maker_died_before_telling_is_there_when_its_key_is_sent_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await gather_all(*(api.sessions(user) for user in (alice, bob, carol)))

    async def dies(*_: object) -> None:
        raise Unreachable("the server is gone")

    made = {"name": "Hikers", "memberIds": [bob, carol], "idempotencyKey": "made"}
    monkeypatch.setattr(group_creation, "_announce_members", dies)
    assert (await api.expect_refusal(alice, CREATE_GROUP, input=made)).code == "UNAVAILABLE"
    monkeypatch.undo()
    group = (await api.data(alice, CREATE_GROUP, input=made))["createGroup"]["id"]
    for user in (alice, bob, carol):
        assert (await api.own_session(user, group))["status"] == "ACTIVE"


async def test_mutes_in_a_sub_biz_that_end_at_once_keep_their_times_when_the_cache_is_lost(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("at once", clock) as api:
        alice, _, talks = await create_shop_conversations(api, 2, 1)
        until = clock.ms + 20_000
        for talk in talks:
            await api.mute(alice, talk, until)
        clock.ms = until + 1_000
        before = await api.all_sessions(alice)
        clock.ms = until + 300_000
        deployments.flush_redis("at once")
        after = await api.all_sessions(alice)
        assert {name: s["activeTs"] for name, s in after.items()} == {name: s["activeTs"] for name, s in before.items()}
        assert all(before[talk]["activeTs"] >= until for talk in talks)


async def test_a_mute_that_ends_far_off_costs_nothing_while_nobody_listens(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    await api.mute(alice, private_id(alice, bob), int(time.time() * 1000) + 10**10)
    noted = len(api.services.app.hub._mutes)
    for _ in range(5):
        listener = await api.listen(alice, LIVE_SESSIONS)
        await listener.stop()
    assert len(api.services.app.hub._mutes) == noted


async def test_what_moves_while_a_sub_biz_is_read_is_read_too(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.sessions.reading._SESSIONS_PER_TRANSACTION", 2)
    alice, others, talks = await create_shop_conversations(api, 6, 0)
    for other in others:
        await api.send(other, alice, subBiz="shop")
    store = api.services.app.store
    hold, held = store.locks.hold, list[object]()

    def slow(*args: Any) -> Any:
        held.append(args)
        return hold(*args)

    monkeypatch.setattr(type(store.locks), "hold", lambda locks, *args: slow(*args))
    reading = asyncio.create_task(api.mark_read(alice, "b_shop"))

    async def begun() -> bool:
        return bool(held)

    await wait_until(begun)
    # The last one of the list goes to its top.
    await api.send(others[0], alice, subBiz="shop")
    await reading
    sessions = await gather_all(*(api.own_session(alice, talk) for talk in talks))
    assert sum(session["unreadCount"] for session in sessions) <= 1


async def test_other_servers_hear_of_a_change_though_its_tick_could_not_be_kept(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    listener = await other_api.listen(alice)
    rows, failed = type(api.services.app.store.session_rows), list[object]()

    async def failing(_: object, ticks: list[object]) -> None:
        if ticks:
            failed.append(ticks)
            raise Unreachable("an election")

    monkeypatch.setattr(rows, "keep_ticks", failing)
    await api.mark_read(bob, private_id(alice, bob))
    assert (await listener.next(2))["status"] == "READ"
    assert failed


@pytest.mark.parametrize("whose", ["another list", "another person"])
async def test_a_cursor_of_another_list_is_refused(api: Api, whose: str) -> None:
    alice, others, _ = await create_shop_conversations(api, 2, 0)
    for other in others:
        await api.send(other, alice)
    query = "query ($first: Int, $after: String, $subBiz: String) { sessions(first: $first, after: $after, subBiz: $subBiz) { pageInfo { endCursor } } }"
    cursor = (await api.data(alice, query, first=1))["sessions"]["pageInfo"]["endCursor"]
    asking = (alice, "shop") if whose == "another list" else (others[0], None)
    refusal = await api.expect_refusal(asking[0], query, first=1, after=cursor, subBiz=asking[1])
    assert (refusal.code, refusal.field) == ("INVALID_INPUT", "after")


async def test_what_is_deleted_takes_no_mark_of_being_unread_nor_is_it_read(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    talk = private_id(alice, bob)
    deleted = await api.delete(alice, talk)
    assert await api.set_unread(alice, talk) == deleted
    assert await api.mark_read(alice, talk) == deleted
    await api.send(bob, alice)
    assert (await api.own_session(alice, talk))["unreadStatus"] is False
