"""Without Redis the API answers from MongoDB on every server; once Redis is back, no stale state is left."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from graphql import ExecutionResult

from resolvers.users.callers import Caller, CallerRole
from schema.base.context import Context
from schema.base.viewers import TrackedViewer
from store.base.ids import ConversationId, UserId
from tests.api.blocks.calls import block, blocked, expect_blocked, unblock
from tests.api.client import SEND, cancel_tasks, message_input, private_id
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import add_channel, overwrite, permissions_in
from tests.invariants.two_servers import TwoServers
from tests.waiting import TIMEOUT_SECONDS, wait_for


async def test_without_redis_everything_but_live_events_goes_on(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    alice, bob, carol, dan = await one.create_users("auth0|7", '"{é}', "user_2N", "$dan")
    talk = private_id(alice, bob)
    await one.send(alice, bob, "before")
    await deployment.lose_redis()

    first = await one.send(alice, bob, "first", idempotencyKey="k")
    again = await other.send(alice, bob, "first", idempotencyKey="k")
    assert again["replayed"] and again["message"]["id"] == first["message"]["id"]
    refusal = await other.expect_send_refusal(alice, bob, "something else", idempotencyKey="k")
    assert refusal.code == "IDEMPOTENCY_CONFLICT"
    await other.send(bob, alice, "second")
    assert [message["content"] for message in await one.history(alice, talk)] == ["before", "first", "second"]

    group = await one.create_group(alice, bob, dan)
    await other.invite(alice, group, carol)
    await one.send(carol, group, "third")
    assert await other.unread(alice, group) == await one.unread(bob, group) == 1
    await one.mark_read(alice, group)
    await other.ack(bob, group, 2)
    await other.pin(alice, group)
    await one.mute(bob, group)
    seen, there = await other.all_sessions(alice), await one.all_sessions(alice)
    for conversation, session in seen.items():
        # The fallback is empty in each request, so each finds the user's clock a little later.
        assert there[conversation].pop("activeTs") > session.pop("activeTs")
    assert seen == there
    assert seen[group]["unreadCount"] == 0 and seen[group]["priority"] == 1
    assert (await one.unread(bob, group), await one.total_unread(bob)) == (1, 0)

    edited = await other.edit(alice, first["message"]["id"], "better")
    assert edited["content"] == "better"
    assert [message["content"] for message in await one.history(bob, talk)] == ["before", "better", "second"]
    assert (await one.expect_send_refusal(alice, "p_x_y", "no")).code == "NOT_FOUND"


async def test_without_redis_blocks_hold_on_every_server(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    alice, bob, carol = await one.create_users("alice", "bob", "carol")
    group = await one.create_group(carol, alice, bob)
    await one.send(bob, alice)
    await block(one, alice, carol)
    await deployment.lose_redis()
    await expect_blocked(other, carol, alice)
    await block(other, alice, bob)
    for process in (one, other):
        await expect_blocked(process, bob, alice)
        await expect_blocked(process, bob, alice, subBiz="shop")
        assert set(await blocked(process, alice)) == {bob, carol}
        await process.send(bob, group)
    await unblock(one, alice, carol)
    await other.send(carol, alice)
    await deployment.bring_redis_back()
    await expect_blocked(one, bob, alice)
    await other.send(carol, alice)
    await unblock(one, alice, bob)
    await other.send(bob, alice)


async def test_without_redis_a_send_that_waits_for_others_is_judged_after_its_turn(deployment: TwoServers) -> None:
    """It has read the conversation before the block, because of the message that it answers."""
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    talk = private_id(alice, bob)
    first = (await one.send(alice, bob))["message"]["id"]
    await deployment.lose_redis()
    turn: Any = other.services.app.store.cache.turn(ConversationId(talk))
    async with turn:
        sending = [
            asyncio.create_task(other.expect_send_refusal(bob, to, "late", replyToId=first)) for to in (alice, talk)
        ]
        await wait_for(lambda: len(turn._waiters or ()) == 2)
        await block(one, alice, bob)
    assert [refusal.code for refusal in await asyncio.gather(*sending)] == ["BLOCKED"] * 2
    assert len(await one.history(alice, talk)) == 1


async def test_without_redis_concurrent_sends_to_one_conversation_get_a_seq_each(
    deployment: TwoServers,
) -> None:
    one, other = deployment.one, deployment.other
    alice, bob, carol = await one.create_users("alice", "bob", "carol")
    group = await one.create_group(alice, bob, carol)
    await deployment.lose_redis()
    sent = await asyncio.gather(
        *(api.send(user, group, f"{user} {n}") for api, user in ((one, alice), (other, bob)) for n in range(10))
    )
    seqs = sorted(int(each["message"]["seq"]) for each in sent)
    assert len(set(seqs)) == 20
    assert len(await one.history(alice, group)) == len(await other.history(bob, group)) == 20
    # Sending reads up to the own message, so an earlier one counts as read too.
    counted = {user: await api.unread(user, group) for api, user in ((one, alice), (other, bob))}
    assert 0 in counted.values()


async def test_without_redis_broadcasts_and_their_changes_go_on(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    parent = (await one.send(alice, bob, "parent"))["message"]
    talk, thread = parent["conversationId"], f"t_1_{parent['conversationId']}"
    await deployment.lose_redis()
    sent = await asyncio.gather(
        *(api.send(user, parent["id"], f"{user}", broadcast=True) for api, user in ((one, alice), (other, bob))),
        *(api.send(user, talk, "hello") for api, user in ((one, alice), (other, bob))),
    )
    replies = [each["message"] for each in sent[:2]]
    copies = {message["content"]: message for message in await one.history(alice, talk)}
    assert len(await one.history(alice, talk)) == 5
    await other.edit(alice, copies[alice]["id"], "edited")
    await one.recall(bob, replies[1]["id"])
    for conversation in (talk, thread):
        shown = {message["content"] for message in await other.history(bob, conversation)}
        assert "edited" in shown and None in shown and not shown & {alice, bob}


async def test_once_redis_is_back_state_is_current_and_subscribers_get_a_reset(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    talk = private_id(alice, bob)
    await one.send(alice, bob, "before")
    listening = await one.listen(bob)
    await deployment.lose_redis()
    await other.send(alice, bob, "meanwhile")
    await other.mark_read(bob, talk, 1)
    await listening.expect_no_event()
    await deployment.bring_redis_back()

    event = await listening.next()
    assert (event["__typename"], event["reset"]) == ("CaughtUp", True)
    assert await one.unread(bob, talk) == await other.unread(bob, talk) == 1
    assert await one.all_sessions(bob) == await other.all_sessions(bob)
    await other.send(alice, bob, "after")
    assert (await listening.next())["message"]["content"] == "after"
    assert [message["content"] for message in await one.history(bob, talk)] == ["before", "meanwhile", "after"]


async def test_a_late_write_without_redis_is_visible_after_redis_is_back(
    deployment: TwoServers,
) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    talk = private_id(alice, bob)
    await one.send(alice, bob, "before")
    await deployment.lose_redis()
    late = other.services.housekeeper
    await late.close()
    await deployment.start_redis()
    await deployment.until(lambda api: api is other or api.services.app.store.cache.is_shared)
    assert await one.unread(bob, talk) == 1
    await other.send(alice, bob, "from who was late")
    # Immediately: a client that one server answered may ask another server.
    assert await one.unread(bob, talk) == 2
    await other.pin(bob, talk)
    assert (await one.own_session(bob, talk))["priority"] == 1


async def test_an_idempotency_key_from_before_holds_without_redis(
    deployment: TwoServers,
) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    first = await one.send(alice, bob, "first", idempotencyKey="k")
    await deployment.lose_redis()

    for api in (one, other, one):
        refusal = await api.expect_send_refusal(alice, bob, "something else", idempotencyKey="k")
        assert refusal.code == "IDEMPOTENCY_CONFLICT"
        again = await api.send(alice, bob, "first", idempotencyKey="k")
        assert (again["replayed"], again["message"]["id"]) == (True, first["message"]["id"])
    assert len(await other.history(bob, private_id(alice, bob))) == 1


async def test_a_late_recall_without_redis_holds_after_redis_is_back(
    deployment: TwoServers,
) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    talk = private_id(alice, bob)
    sent = await one.send(alice, bob, "regretted")
    await deployment.lose_redis()
    late = other.services.housekeeper
    await late.close()
    await deployment.start_redis()
    await deployment.until(lambda api: api is other or api.services.app.store.cache.is_shared)
    assert (await one.own_session(bob, talk))["lastMessage"]["content"] == "regretted"
    listening = await one.listen(bob)
    await other.recall(alice, sent["message"]["id"])
    await late.check_redis()
    assert (await one.own_session(bob, talk))["lastMessage"]["content"] is None
    event = await listening.next()
    assert (event["__typename"], event["reset"]) == ("CaughtUp", True)


async def test_an_event_delivered_as_redis_goes_away_shows_the_state_of_mongodb(deployment: TwoServers) -> None:
    one = deployment.one
    alice, bob = await one.create_users("alice", "bob")
    await one.send(alice, bob, "before")
    await deployment.lose_redis()

    async def show(_event: object, context: Context, _give_way: object) -> ExecutionResult:
        head = await context.app.store.conversations.find(ConversationId(private_id(alice, bob)))
        return ExecutionResult({"seq": head and head.seq}, None)

    viewer = TrackedViewer(Caller(UserId(alice), CallerRole.USER, 0.0))
    trips = one.services.app.store.mongo.trips
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert one.services.engine._event_slots.try_start(UserId(alice))
        rendered = await one.services.engine.execute_event(show, None, viewer, UserId(alice))
    assert orjson.loads(rendered) == {"data": {"seq": 1}}
    assert one.services.app.store.mongo.trips == trips + 1


async def test_a_request_begun_with_redis_and_ended_without_has_its_effects_at_once(
    deployment: TwoServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    talk = private_id(alice, bob)
    await one.send(alice, bob, "before")
    store, gone, waiting = other.services.app.store, asyncio.Event(), set[str]()

    def late(of: Any, name: str) -> None:
        work = getattr(of, name)

        async def wait_and_work(_self: object, *args: Any, **more: Any) -> Any:
            waiting.add(name)
            await gone.wait()
            return await work(*args, **more)

        monkeypatch.setattr(type(of), name, wait_and_work)

    late(store.commits, "commit")
    late(store.session_rows, "write")
    writes = asyncio.gather(other.send(alice, bob, "spanning", idempotencyKey="k"), other.pin(bob, talk))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(waiting) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await deployment.lose_redis()
    gone.set()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        sent, _ = await writes
    assert (await one.send(alice, bob, "spanning", idempotencyKey="k"))["message"]["id"] == sent["message"]["id"]
    await deployment.bring_redis_back()
    for api in (one, other):
        assert (await api.unread(bob, talk), (await api.own_session(bob, talk))["priority"]) == (2, 1)


async def test_a_subscription_waiting_for_redis_rarely_queries_mongodb(deployment: TwoServers) -> None:
    one = deployment.one
    alice, bob, carol = await one.create_users("alice", "bob", "carol")
    group = await one.create_group(alice, bob, carol)
    await deployment.lose_redis()
    await one.services.housekeeper.close()
    trips = one.services.app.store.mongo.trips
    waiting = asyncio.create_task(one.listen(alice, id=group))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    # One of them reads the users that the subscriber has blocked.
    assert one.services.app.store.mongo.trips - trips <= 3
    await cancel_tasks(waiting)


async def test_without_redis_sessions_change_on_servers_whose_clocks_differ(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    talk = private_id(alice, bob)
    await one.send(alice, bob, "before")
    await deployment.lose_redis()
    ahead = one.services.app.store.clock
    ahead.advance_to(ahead.now_ms() + 5_000)
    for priority in (1, 3, 5):
        await one.pin(bob, talk, priority)
        assert (await other.pin(bob, talk, priority + 1))["priority"] == priority + 1
    assert (await one.own_session(bob, talk))["priority"] == 6


async def test_without_redis_changes_of_rights_are_in_force_on_every_server(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    workspace = await create_workspace(one, alice)
    await add_members(one, workspace, bob)
    channel = await add_channel(one, workspace)
    for api in (one, other):
        await api.send(bob, channel, "before")
    await deployment.lose_redis()
    await overwrite(one, alice, channel=channel, user=bob, deny=["SEND_MESSAGES"])
    for api in (other, one):
        assert (await api.expect_send_refusal(bob, channel)).code == "FORBIDDEN"
    await overwrite(other, alice, channel=channel, user=bob)
    await one.send(bob, channel, "again")
    await overwrite(other, alice, channel=channel, user=bob, deny=["VIEW_CHANNEL"])
    assert await permissions_in(one, bob, channel) is None
    row = one.database["workspaces"].find_one({"_id": workspace})
    assert row is not None and "pn" in row
    await deployment.bring_redis_back()
    for api in (one, other):
        assert (await api.expect_send_refusal(bob, channel)).code == "NOT_FOUND"
        await api.services.app.store.policy_changes.complete_incomplete()
    row = one.database["workspaces"].find_one({"_id": workspace})
    assert row is not None and row["pn"] == []
    await overwrite(one, alice, channel=channel, user=bob)
    await other.send(bob, channel, "after")


async def test_without_redis_no_server_shows_messages_of_a_channel_that_it_has_kept(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    (alice,) = await one.create_users("alice")
    channel = await add_channel(one, await create_workspace(one, alice))
    sent = [(await one.send(alice, channel, text))["message"]["id"] for text in ("first", "second", "third")]
    edit = "mutation ($id: ID!, $text: String!) { editMessage(messageId: $id, content: $text) { id } }"
    page = "query ($id: ID!) { messages(conversationId: $id, last: 50) { edges { node { content } } } }"

    async def contents() -> list[list[str]]:
        pages = [(await api.data(alice, page, id=channel))["messages"]["edges"] for api in (one, other)]
        return [[edge["node"]["content"] for edge in edges] for edges in pages]

    assert await contents() == [["first", "second", "third"]] * 2
    await deployment.lose_redis()
    await other.data(alice, edit, id=sent[0], text="1")
    assert await contents() == [["1", "second", "third"]] * 2
    await one.data(alice, edit, id=sent[1], text="2")
    await deployment.bring_redis_back()
    assert await contents() == [["1", "2", "third"]] * 2
    await other.data(alice, edit, id=sent[2], text="3")
    assert await contents() == [["1", "2", "3"]] * 2


@pytest.mark.parametrize("loss", ["before", "after"])
async def test_no_message_overtakes_a_change_of_rights_while_redis_is_lost(
    deployment: TwoServers, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    """Bob's message has a place, from before or after the loss. His right ends on another server, and Alice writes."""
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    workspace = await create_workspace(one, alice)
    await add_members(one, workspace, bob)
    channel = await add_channel(one, workspace)
    for api in (one, other):
        await api.send(bob, channel, "before")
    if loss == "before":
        await deployment.lose_redis()
    commits, has_place, may_commit = one.services.app.store.commits, asyncio.Event(), asyncio.Event()
    commit = commits.commit

    async def commit_late(*args: Any, **options: Any) -> Any:
        has_place.set()
        await may_commit.wait()
        return await commit(*args, **options)

    monkeypatch.setattr(commits, "commit", commit_late)
    sending = asyncio.create_task(one.run(bob, SEND, input=message_input(channel, "late")))
    async with asyncio.timeout(20):
        await has_place.wait()
    if loss == "after":
        await deployment.lose_redis()
    await overwrite(other, alice, channel=channel, user=bob, deny=["SEND_MESSAGES"])
    await other.send(alice, channel, "marker")
    if loss == "after":
        await deployment.bring_redis_back()
    may_commit.set()
    async with asyncio.timeout(20):
        answer = await sending
    # The client sends it again.
    assert answer["errors"][0]["extensions"]["code"] == "UNAVAILABLE"
    assert (await one.expect_send_refusal(bob, channel)).code == "FORBIDDEN"
    assert [message["content"] for message in await other.history(alice, channel)] == ["before", "before", "marker"]
