"""Recalling messages: by whom, until when, and that the content is withheld everywhere."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import RECALL, Api, Refusal, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.revisions import current_cursor, read_everywhere, read_missed_events, set_member
from tests.api.session_calls import iso
from tests.clock import ManualClock

NO_MESSAGE = Refusal("NOT_FOUND", "messageId")


async def refused(api: Api, user: str, message: str) -> Refusal:
    """The refusal, having changed nothing."""
    stored = await api.stored_documents()
    refusal = await api.expect_refusal(user, RECALL, id=message)
    assert await api.stored_documents() == stored
    return refusal


async def test_a_recall_is_answered_and_withholds_the_content_everywhere(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group, "secret", mentions=[bob]))["message"]
    recalled = await api.recall(alice, sent["id"])
    assert recalled["recalledAt"].endswith("Z")
    assert recalled == sent | {"content": None, "state": "RECALLED", "recalledAt": recalled["recalledAt"]}
    for evicted in (False, True):
        if evicted:
            keys = api.services.app.store.keys.conversation(ConversationId(group))
            await api.services.app.store.cache.one(Call("DEL", keys))
        for user in (alice, bob, carol):
            places = await read_everywhere(api, user, sent)
            assert [place for place, found in places.items() if found != recalled] == []


async def test_the_row_stays_and_keeps_its_text(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "kept"))["message"]
    await api.recall(alice, sent["id"])
    row = (await api.stored_documents())["messages"][int(sent["id"].removeprefix("m_"))]
    assert (row["t"], row["s"]) == ("kept", 1)


async def test_a_reply_shows_that_it_is_gone(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "secret"))["message"]
    await api.send(bob, alice, "reply", replyToId=sent["id"])
    await api.recall(alice, sent["id"])
    assert (await api.history(bob, private_id(alice, bob)))[1]["replyTo"] == {
        "id": sent["id"],
        "seq": 1,
        "content": None,
    }
    # One can still answer to what was there.
    reply = (await api.send(bob, alice, "what was that?", replyToId=sent["id"]))["message"]
    assert reply["replyTo"]["content"] is None


async def test_all_devices_of_all_members_hear_of_it_without_the_content(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group, "secret"))["message"]
    await api.wait_until_idle()
    since = {user: await current_cursor(api, user) for user in (alice, bob, carol)}
    devices = [(user, await api.listen(user)) for user in (alice, alice, bob, carol)]
    recalled = await api.recall(alice, sent["id"])
    for user, device in devices:
        event = await device.next()
        assert (event["__typename"], event["message"]) == ("MessageRecalled", recalled)
        assert await read_missed_events(api, user, since[user]) == [event]
        await device.expect_no_event(0.03)


async def test_what_was_missed_holds_nothing_of_it(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    since = {user: await current_cursor(api, user) for user in (alice, bob)}
    sent = (await api.send(alice, bob, "secret"))["message"]
    await api.edit(alice, sent["id"], "secret too")
    await api.send(alice, bob, "between")
    recalled = await api.recall(alice, sent["id"])
    for user, start in since.items():
        events = await read_missed_events(api, user, start)
        # The edit shows nothing any more: it is left out.
        assert [event["__typename"] for event in events] == ["MessageCreated", "MessageCreated", "MessageRecalled"]
        assert events[0]["message"] == events[2]["message"] == recalled
        for number, event in enumerate(events):
            assert await read_missed_events(api, user, event["cursor"]) == events[number + 1 :]


async def test_a_second_recall_answers_the_same_and_tells_nobody(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(bob, group))["message"]["id"]
    recalled = await api.recall(bob, sent)
    devices = [await api.listen(user) for user in (alice, bob)]
    stored = await api.stored_documents()
    for user in (bob, alice):
        assert await api.recall(user, sent) == recalled
    assert await api.stored_documents() == stored
    for device in devices:
        await device.expect_no_event(0.05)


@pytest.mark.parametrize("author", ["OWNER", "ADMIN", "MEMBER"])
@pytest.mark.parametrize("role", ["OWNER", "ADMIN", "MEMBER", "outsider", "former", "newcomer"])
async def test_who_may_recall_what_somebody_wrote(api: Api, role: str, author: str) -> None:
    owner, admin, member, actor, dave = await api.create_users("owner", "admin", "member", "actor", "dave")
    group = await api.create_group(owner, admin, member, actor)
    writer = {"OWNER": owner, "ADMIN": admin, "MEMBER": member}[author]
    sent = (await api.send(writer, group, "theirs"))["message"]["id"]
    await set_member(api, group, admin, role="ADMIN")
    user, expected = actor, None
    match role:
        case "OWNER":
            user = owner
        case "ADMIN":
            await set_member(api, group, actor, role="ADMIN")
        case "MEMBER":
            expected = Refusal("FORBIDDEN", "messageId")
        case "former":
            # Whatever they were: it is over.
            await set_member(api, group, actor, role="ADMIN", until=1)
            expected = Refusal("NOT_A_MEMBER", "messageId")
        case "outsider":
            user, expected = dave, NO_MESSAGE
        case "newcomer":
            await api.invite(owner, group, dave)
            user, expected = dave, NO_MESSAGE
    if expected is not None:
        device = await api.listen(owner)
        assert await refused(api, user, sent) == expected
        await device.expect_no_event(0.02)
        return
    assert (await api.recall(user, sent))["state"] == "RECALLED"


@pytest.mark.parametrize("peer", ["peer", "stranger"])
async def test_in_private_only_the_sender_may(api: Api, peer: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = (await api.send(alice, bob))["message"]["id"]
    expected = {"peer": (bob, Refusal("FORBIDDEN", "messageId")), "stranger": (carol, NO_MESSAGE)}
    user, refusal = expected[peer]
    assert await refused(api, user, sent) == refusal


async def test_somebody_who_left_recalls_nothing_any_more(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    own = (await api.send(bob, group))["message"]["id"]
    await set_member(api, group, bob, until=1)
    assert await refused(api, bob, own) == Refusal("NOT_A_MEMBER", "messageId")


@pytest.mark.parametrize("message", ["", "m_", "m_1", "m_-1", "g_1", f"m_{2**63}", "\x00"])
async def test_what_names_no_message_is_not_found(api: Api, message: str) -> None:
    (alice,) = await api.create_users("alice")
    assert await refused(api, alice, message) == NO_MESSAGE


async def test_system_messages_stay_whoever_acted(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.invite(bob, group, dave)
    (message,) = await api.history(alice, group)
    for user in (alice, bob, carol, dave):
        assert await refused(api, user, message["id"]) == Refusal("INVALID_INPUT", "messageId")


@pytest.mark.parametrize("seconds", [0, 7, 120])
async def test_a_sender_has_so_much_time_and_not_a_millisecond_more(open_api: OpenApi, seconds: int) -> None:
    clock = ManualClock()
    limit = {} if seconds == 120 else {"recall_seconds": seconds}
    async with open_api(f"limit {seconds}", clock, **limit) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        for to in (carol, group):
            await api.advance_days(clock, 0)
            sent = [(await api.send(bob, to, text))["message"]["id"] for text in "12"]
            begin, clock.ms = clock.ms, clock.ms + seconds * 1000
            recalled = await api.recall(bob, sent[0])
            assert recalled["recalledAt"] == iso(clock.ms)
            clock.ms = begin + seconds * 1000 + 1
            assert await refused(api, bob, sent[1]) == Refusal("RECALL_TIMEOUT", "messageId")
            # What is recalled already is answered at any time.
            assert await api.recall(bob, sent[0]) == recalled
        # Time is the senders' alone.
        await api.advance_days(clock, 30)
        assert await refused(api, carol, sent[1]) == Refusal("FORBIDDEN", "messageId")
        assert (await api.recall(alice, sent[1]))["state"] == "RECALLED"


@pytest.mark.parametrize("role", ["OWNER", "ADMIN"])
async def test_an_owner_or_admin_recalls_their_own_at_any_time_in_the_group(open_api: OpenApi, role: str) -> None:
    clock = ManualClock()
    async with open_api(f"own {role}", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        user = alice if role == "OWNER" else bob
        await set_member(api, group, bob, role="ADMIN")
        sent, elsewhere = [(await api.send(user, to))["message"]["id"] for to in (group, carol)]
        await api.advance_days(clock, 1)
        assert await refused(api, user, elsewhere) == Refusal("RECALL_TIMEOUT", "messageId")
        assert (await api.recall(user, sent))["state"] == "RECALLED"


async def test_a_recalled_message_counts_as_unread_until_it_is_read(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("counts") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        sent = [(await api.send(alice, group, text, mentions=[bob]))["message"]["id"] for text in "12"]
        for message in sent:
            await api.recall(alice, message)
        for _ in range(2):
            session = await api.own_session(bob, group)
            assert (session["unreadCount"], session["unreadMentionCount"], session["writeSeq"]) == (2, 2, 2)
            assert await api.total_unread(bob) == 2
            await api.wait_until_idle()
            deployments.flush_redis("counts")
        assert (await api.mark_read(bob, group))["unreadCount"] == 0


@pytest.mark.parametrize("lost", [False, True], ids=["key known", "key forgotten by Redis"])
async def test_the_same_key_answers_the_recalled_message(
    open_api: OpenApi, deployments: Deployments, lost: bool
) -> None:
    place = f"keys {lost}"
    async with open_api(place) as api:
        alice, bob = await api.create_users("alice", "bob")
        sent = (await api.send(alice, bob, "secret", idempotencyKey="k"))["message"]
        recalled = await api.recall(alice, sent["id"])
        await api.wait_until_idle()
        if lost:
            deployments.flush_redis(place)
        again = await api.send(alice, bob, "secret", idempotencyKey="k")
        assert (again["replayed"], again["message"]) == (True, recalled)
        assert len(await api.history(alice, private_id(alice, bob))) == 1


async def test_edits_that_were_before_it_stay_counted(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]
    edited = await api.edit(alice, sent["id"], "edited")
    recalled = await api.recall(alice, sent["id"])
    assert (recalled["editCount"], recalled["editedAt"]) == (1, edited["editedAt"])


async def test_nothing_that_redis_keeps_or_carries_holds_the_content_afterwards(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("traces") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        sent = (await api.send(alice, group, "a secret", idempotencyKey="k"))["message"]["id"]
        await api.edit(alice, sent, "a secret, edited")
        await api.sessions(bob)
        await api.recall(alice, sent)
        await api.wait_until_idle()

        assert any(sent.removeprefix("m_").encode() in value for value in deployments.redis_dump("traces"))
        assert [value for value in deployments.redis_dump("traces") if b"a secret" in value] == []
