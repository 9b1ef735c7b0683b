"""SYSTEM messages: their events, those that services send, and messages of older versions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from resolvers.users.callers import Caller, CallerRole, act_as
from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import SEND, Api, Json, Refusal, make_caller, message_input, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.events import current_cursor, read_missed_events
from tests.api.paused_step import PausedStep
from tests.api.revisions import ALL_PARTITIONS, count_outbox_entries, read_everywhere

NO_CONVERSATION = Refusal("NOT_FOUND", "conversationId")


def service(acts_for: str | None = None, name: str = "backend") -> Caller:
    return act_as(make_caller(name, CallerRole.SERVICE), acts_for, "actAs")


async def announce(api: Api, caller: Caller, to: str, content: str = "shipped", **more: Any) -> Json:
    """Send a SYSTEM message, and return the payload."""
    input = message_input(to, content, contentType="SYSTEM", **more)
    payload: Json = (await api.data(caller, SEND, input=input))["sendMessage"]
    return payload


async def refuse(api: Api, caller: Caller, to: str, content: str = "shipped", **more: Any) -> Refusal:
    """Return the refusal of a SYSTEM message. Nothing stored may change, except that the log names what was tried."""
    await api.services.sign_in(caller)
    stored = await api.stored_hashes()
    input = message_input(to, content, contentType="SYSTEM", **more)
    refusal = await api.expect_refusal(caller, SEND, input=input)
    assert await api.stored_hashes() | {"audit": ""} == stored | {"audit": ""}
    return refusal


def event(kind: str, actor: str, *targets: str, text: str | None = None) -> Json:
    return {"kind": kind, "actor": {"id": actor}, "targets": [{"id": user} for user in targets], "text": text}


async def forget_conversation(api: Api, conversation: str) -> None:
    """Make the next read of a conversation use MongoDB."""
    await api.wait_until_idle()
    head, members, _, loading = api.services.app.store.keys.conversation(ConversationId(conversation))
    await api.services.app.store.cache.one(Call("DEL", (head, members, loading)))


# Events of groups


async def test_changes_of_groups_are_events(api: Api, other_api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    since, live = await current_cursor(api, bob), await other_api.listen(bob)
    await api.invite(bob, group, dave, carol)
    await api.remove(alice, group, dave)
    await api.update_group(alice, group, name="Friends")
    await api.send(alice, group, "hello")
    await api.transfer(alice, group, carol)
    await api.leave(alice, group)
    expected = [
        event("MEMBERS_JOINED", bob, dave),
        event("MEMBER_REMOVED", alice, dave),
        event("RENAMED", alice, text="Friends"),
        None,
        event("OWNER_CHANGED", alice, carol),
        event("MEMBER_LEFT", alice, alice),
    ]
    received: list[Json] = []
    while len(received) < 6:
        change = await live.next()
        received += [change["message"]] if change["__typename"] == "MessageCreated" else []
    assert [message["systemEvent"] for message in received] == expected
    for evicted in (False, True):
        if evicted:
            await forget_conversation(api, group)
        assert [one["systemEvent"] for one in await api.history(bob, group)] == expected
        assert {one["systemEvent"]["kind"] for one in (await read_everywhere(api, bob, received[-1])).values()} == {
            "MEMBER_LEFT"
        }
        missed = await read_missed_events(api, bob, since)
        assert [one["message"]["systemEvent"] for one in missed if "message" in one] == expected


async def test_a_group_change_recovered_from_the_outbox_keeps_its_event(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("recovered") as dying, open_api("recovered") as api:
        for process in (dying, api):
            await process.services.housekeeper.close()
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        private = private_id(alice, bob)
        await api.send(alice, bob)

        async def die(_reserved: object) -> None:
            raise Unreachable("the server has died")

        monkeypatch.setattr(dying.services.app.delivery, "send", die)
        renaming = dying.update_group(alice, group, name="Renamed")
        for request in (renaming, announce(dying, service(), private)):
            with pytest.raises(AssertionError, match="UNAVAILABLE"):
                await request
        assert await count_outbox_entries(api) == 2
        assert await api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 2
        await api.wait_until_idle()
        assert (await api.history(bob, group))[-1]["systemEvent"] == event("RENAMED", alice, text="Renamed")
        assert (await api.history(bob, private))[-1]["systemEvent"] == event("CUSTOM", "backend", text="shipped")


async def test_events_of_older_messages_are_inferred_from_their_mentions(api: Api) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(alice, bob, carol)
    await api.invite(alice, group, dave, erin)
    await api.leave(erin, group)
    await api.remove(alice, group, dave)
    joined, left, removed = await api.history(alice, group)
    await api.wait_until_idle()
    api.database["messages"].update_many({"c": group}, {"$unset": {"se": ""}})
    await forget_conversation(api, group)
    unclear = event("CUSTOM", alice, dave, text=removed["content"])
    expected = [joined["systemEvent"], left["systemEvent"], unclear]
    assert [one["systemEvent"] for one in await api.history(alice, group)] == expected
    newest = await read_everywhere(api, bob, removed)
    assert {field: message["systemEvent"] for field, message in newest.items()} == dict.fromkeys(newest, unclear)


async def test_the_kind_of_a_later_version_is_custom(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.leave(bob, group)
    await api.wait_until_idle()
    api.database["messages"].update_many({"c": group}, {"$set": {"se": ["?", "text"]}})
    (message,) = await api.history(alice, group)
    assert message["systemEvent"] == event("CUSTOM", bob, bob, text=message["content"])


# recalledBy


async def test_the_recaller_of_an_older_recall_is_known_only_in_private(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    expected = {group: None, private_id(alice, bob): {"id": alice}}
    for to in expected:
        sent = (await api.send(alice, to if to == group else bob))["message"]
        assert (await api.recall(alice, sent["id"]))["recalledBy"] == {"id": alice}
        await api.wait_until_idle()
        api.database["messages"].update_one({"c": to}, {"$unset": {"rb": ""}})
        await forget_conversation(api, to)
        read = await read_everywhere(api, bob, sent)
        assert {field: message["recalledBy"] for field, message in read.items()} == dict.fromkeys(read, expected[to])


# Messages of services


async def test_a_service_writes_into_any_group(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group, "hello")
    before = {user: await api.own_session(user, group) for user in (alice, bob)}
    since, live = await current_cursor(api, bob), await other_api.listen(bob)
    payload = await announce(api, service(), group, mentions=[bob])
    message = payload["message"]
    assert (message["seq"], message["contentType"], message["sender"]["id"]) == (2, "SYSTEM", "backend")
    assert message["systemEvent"] == event("CUSTOM", "backend", bob, text="shipped")
    assert (await live.next())["message"] == message
    assert [one["message"] for one in await read_missed_events(api, bob, since)] == [message]
    for evicted in (False, True):
        if evicted:
            await forget_conversation(api, group)
        for user in (alice, bob):
            session = await api.own_session(user, group)
            unchanged = ("unreadCount", "unreadMentionCount", "readSeq", "deliveredSeq", "writeTs")
            assert [session[field] for field in unchanged] == [before[user][field] for field in unchanged]
            assert session["writeSeq"] == 2
            assert await read_everywhere(api, user, message) == dict.fromkeys(
                await read_everywhere(api, user, message), message
            )
        offline = await api.data(bob, "{ offlineMessages { edges { node { seq } } } }")
        assert offline["offlineMessages"]["edges"] == [{"node": {"seq": 1}}]
    await api.mark_read(bob, group)
    assert (await api.own_session(bob, group))["readSeq"] == 2


async def test_the_service_is_no_member_afterwards(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group, "secret")
    for caller in (service(), service(name="other-backend")):
        session = (await announce(api, caller, group))["session"]
        assert (session["status"], session["unreadCount"], session["lastMessage"]) == ("INVALID", 0, None)
        assert (session["id"], session["conversation"]["id"]) == (f"s_{caller.user_id}_{group}", group)
        assert session["readSeq"] == session["writeSeq"]
        data = await api.data(
            caller,
            """query ($id: ID!) { messages(conversationId: $id) { edges { cursor } } session(conversationId: $id) { id }
            group(id: $id) { id } sessions { edges { cursor } } myGroups { edges { cursor } } }""",
            id=group,
        )
        empty = {"edges": []}
        assert data == {"messages": None, "session": None, "group": None, "sessions": empty, "myGroups": empty}
    assert (await api.data(alice, "query ($id: ID!) { group(id: $id) { memberCount } }", id=group))["group"] == {
        "memberCount": 3
    }


async def test_a_service_that_acts_writes_as_the_user(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(bob, group, "unread")
    payload = await announce(api, service(alice), group)
    assert (payload["message"]["sender"]["id"], payload["message"]["authorName"]) == (alice, alice)
    # Alice has not looked at the group: what she has not read stays unread.
    assert (payload["session"]["id"], payload["session"]["unreadCount"]) == (f"s_{alice}_{group}", 1)
    assert (payload["session"]["readSeq"], payload["session"]["writeSeq"]) == (0, 2)
    assert payload["session"] == await api.own_session(alice, group)
    for user in (alice, bob, carol):
        assert (await api.history(user, group))[1]["systemEvent"] == event("CUSTOM", alice, text="shipped")
    assert (await api.history(alice, group))[1]["idempotencyKey"] is None
    receipts = "query ($id: ID!) { message(id: $id) { delivery { status } receipts { edges { cursor } } } }"
    data = await api.data(alice, receipts, id=payload["message"]["id"])
    assert data["message"]["delivery"] is None


@pytest.mark.parametrize("author", ["outsider", "peer"])
async def test_a_service_writes_into_a_private_conversation(
    open_api: OpenApi, deployments: Deployments, author: str
) -> None:
    """It moves no positions, in Redis or in MongoDB."""
    async with open_api(f"private {author}") as api:
        alice, bob = await api.create_users("alice", "bob")
        private = private_id(alice, bob)
        await api.send(alice, bob, "first")
        fields = ("unreadCount", "readSeq", "deliveredSeq", "peerReadSeq", "peerDeliveredSeq", "writeTs")
        sessions = {user: await api.own_session(user, private) for user in (alice, bob)}
        before = {user: [session[field] for field in fields] for user, session in sessions.items()}
        caller = service(bob if author == "peer" else None)
        for seq in (2, 3):
            payload = await announce(api, caller, private)
            assert (payload["message"]["sender"]["id"], payload["message"]["seq"]) == (caller.user_id, seq)
            assert payload["session"]["status"] == ("ACTIVE" if author == "peer" else "INVALID")
            for loaded in (False, True):
                if loaded:
                    await api.wait_until_idle()
                    deployments.flush_redis(f"private {author}")
                for user in (alice, bob):
                    session = await api.own_session(user, private)
                    assert [session[field] for field in fields] == before[user], (user, seq, loaded)
                    assert session["writeSeq"] == seq
        tick = "query ($id: ID!) { messages(conversationId: $id) { edges { node { delivery { status } } } } }"
        edges = (await api.data(alice, tick, id=private))["messages"]["edges"]
        assert [edge["node"]["delivery"] for edge in edges] == [{"status": "SENT"}, None, None]


async def test_a_private_conversation_may_begin_with_a_system_message(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("begins") as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.sessions(bob)
        payload = await announce(api, service(alice), bob)
        private = private_id(alice, bob)
        assert (payload["message"]["conversationId"], payload["message"]["seq"]) == (private, 1)
        assert payload["session"]["status"] == "ACTIVE"
        for loaded in (False, True):
            if loaded:
                await api.wait_until_idle()
                deployments.flush_redis("begins")
            for user in (alice, bob):
                session = await api.own_session(user, private)
                assert (session["status"], session["unreadCount"], session["writeSeq"]) == ("ACTIVE", 0, 1)
                assert session["lastMessage"]["content"] == "shipped"
                # Nobody has read it yet, the sender included.
                assert (session["readSeq"], session["peerReadSeq"], session["peerDeliveredSeq"]) == (0, 0, 0)


async def test_a_system_message_revives_no_deleted_session(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await api.delete(bob, private_id(alice, bob))
    await announce(api, service(), private_id(alice, bob))
    assert (await api.own_session(bob, private_id(alice, bob)))["status"] == "INVALID"


async def test_the_same_key_returns_the_same_system_message(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for caller in (service(), service(alice)):
        first = await announce(api, caller, group, idempotencyKey="k")
        again = await announce(other_api, caller, group, idempotencyKey="k")
        assert (again["replayed"], again["message"]) == (True, first["message"])
        assert again["session"]["status"] == first["session"]["status"]
        paused = PausedStep(api.services.app.delivery.fanout_stage, "_fan_out", monkeypatch)
        sending = asyncio.create_task(announce(api, caller, group, "late", idempotencyKey="l"))
        await paused.reached.wait()
        try:
            replayed = await announce(other_api, caller, group, "late", idempotencyKey="l")
            assert replayed["replayed"]
        finally:
            paused.resume.set()
        assert (await sending)["message"] == replayed["message"]
        refusal = await refuse(api, caller, group, "other", idempotencyKey="k")
        assert refusal == Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")
    assert len(await api.history(alice, group)) == 4


async def test_a_system_message_that_mentions_everybody_counts_for_nobody(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("everybody") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        await announce(api, service(alice), group, mentionAll=True)
        await api.send(alice, group, "hello")
        for loaded in (False, True):
            if loaded:
                await api.wait_until_idle()
                deployments.flush_redis("everybody")
            session = await api.own_session(bob, group)
            assert (session["unreadCount"], session["unreadMentionCount"]) == (1, 0)
        assert await refuse(api, service(bob), group, mentionAll=True) == Refusal("FORBIDDEN", "mentionAll")
        assert await refuse(api, service(), group, mentionAll=True) == Refusal("FORBIDDEN", "mentionAll")


@pytest.mark.parametrize("role", [CallerRole.USER, CallerRole.ADMIN])
async def test_only_callers_with_role_service_send_system_messages(api: Api, role: CallerRole) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, bob)
    callers = [make_caller(alice, role)]
    if role is CallerRole.ADMIN:
        callers.append(replace(callers[0], acted_by=make_caller("admin", role).user_id))
    for caller in callers:
        for to in (bob, private_id(alice, bob), group):
            assert await refuse(api, caller, to) == Refusal("INVALID_INPUT", "contentType")


async def test_a_service_gets_the_same_refusals_as_members(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group, dissolved, dismissed = [await api.create_group(alice, bob, carol) for _ in range(3)]
    sent = (await api.send(alice, group))["message"]["id"]
    await api.dissolve(alice, dissolved)
    await api.dismiss(alice, dismissed)
    refusals = {
        "g_1": NO_CONVERSATION,
        private_id(alice, dave): NO_CONVERSATION,
        private_id("backend", "backend"): Refusal("INVALID_INPUT", "conversationId"),
        "b_shop": NO_CONVERSATION,
        dismissed: NO_CONVERSATION,
        dissolved: Refusal("NOT_A_MEMBER", "conversationId"),
        "backend": Refusal("INVALID_INPUT", "toUserId"),
        "nobody-there": Refusal("NOT_FOUND", "toUserId"),
    }
    for to, refusal in refusals.items():
        assert await refuse(api, service(), to) == refusal, to
    assert await refuse(api, service(), group, " ") == Refusal("INVALID_INPUT", "content")
    assert await refuse(api, service(), group, mentions=[dave]) == Refusal("INVALID_INPUT", "mentions")
    # The service cannot see the message, so it cannot reply to it; a member can.
    assert await refuse(api, service(), group, replyToId=sent) == Refusal("INVALID_INPUT", "replyToId")
    assert (await announce(api, service(bob), group, replyToId=sent))["message"]["replyTo"]["id"] == sent
    # Other messages of a service need a membership.
    text = message_input(group, "hello")
    assert await api.expect_refusal(service(), SEND, input=text) == NO_CONVERSATION
