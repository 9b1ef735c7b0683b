"""recallMessage: permission, the time limit, and that the content is withheld everywhere. See also test_revising.py."""

from __future__ import annotations

from itertools import product

import pytest

from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import RECALL, Api, Refusal, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.events import current_cursor, read_missed_events
from tests.api.revisions import read_everywhere, set_member
from tests.api.session_calls import iso
from tests.clock import ManualClock

NO_MESSAGE = Refusal("NOT_FOUND", "messageId")


async def expect_recall_refusal(api: Api, user: str, message: str) -> Refusal:
    """Return the refusal. Nothing stored may change."""
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(user, RECALL, id=message)
    assert await api.stored_hashes() == stored
    return refusal


async def test_a_recall_is_returned_and_hides_the_content_in_every_field(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group, "secret", mentions=[bob]))["message"]
    recalled = await api.recall(alice, sent["id"])
    assert recalled["recalledAt"].endswith("Z")
    assert recalled == sent | {
        "content": None,
        "state": "RECALLED",
        "recalledAt": recalled["recalledAt"],
        "recalledBy": {"id": alice},
    }
    for evicted in (False, True):
        if evicted:
            keys = api.services.app.store.keys.conversation(ConversationId(group))
            await api.services.app.store.cache.one(Call("DEL", keys))
        for user in (alice, bob, carol):
            results = await read_everywhere(api, user, sent)
            assert [field for field, result in results.items() if result != recalled] == []


async def test_the_stored_message_keeps_its_text(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "kept"))["message"]
    await api.recall(alice, sent["id"])
    row = (await api.stored_documents())["messages"][int(sent["id"].removeprefix("m_"))]
    assert (row["t"], row["s"]) == ("kept", 1)


async def test_a_reply_to_a_recalled_message_has_no_quoted_content(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "secret"))["message"]
    await api.send(bob, alice, "reply", replyToId=sent["id"])
    await api.recall(alice, sent["id"])
    assert (await api.history(bob, private_id(alice, bob)))[1]["replyTo"] == {
        "id": sent["id"],
        "seq": 1,
        "content": None,
    }
    # A reply to the recalled message is still possible.
    reply = (await api.send(bob, alice, "what was that?", replyToId=sent["id"]))["message"]
    assert reply["replyTo"]["content"] is None


async def test_replayed_events_do_not_hold_the_content(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    since = {user: await current_cursor(api, user) for user in (alice, bob)}
    sent = (await api.send(alice, bob, "secret"))["message"]
    await api.edit(alice, sent["id"], "secret too")
    await api.send(alice, bob, "between")
    recalled = await api.recall(alice, sent["id"])
    for user, start in since.items():
        events = await read_missed_events(api, user, start)
        # The edit has no content to show, so it is left out.
        assert [event["__typename"] for event in events] == ["MessageCreated", "MessageCreated", "MessageRecalled"]
        assert events[0]["message"] == events[2]["message"] == recalled
        for number, event in enumerate(events):
            assert await read_missed_events(api, user, event["cursor"]) == events[number + 1 :]


async def test_a_second_recall_changes_nothing(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(bob, group))["message"]["id"]
    recalled = await api.recall(bob, sent)
    devices = [await api.listen(user) for user in (alice, bob)]
    stored = await api.stored_hashes()
    for user in (bob, alice):
        assert await api.recall(user, sent) == recalled
    assert await api.stored_hashes() == stored
    for device in devices:
        await device.expect_no_event(0.05)


@pytest.mark.parametrize(
    ("role", "author"),
    [
        *product(("OWNER", "ADMIN"), ("OWNER", "ADMIN", "MEMBER")),
        *product(("MEMBER", "outsider", "former", "newcomer"), ("MEMBER",)),
        *(
            pytest.param(role, author, marks=pytest.mark.long)
            for role, author in product(("MEMBER", "outsider", "former", "newcomer"), ("OWNER", "ADMIN"))
        ),
    ],
)
async def test_owners_and_admins_may_recall_messages_of_others(api: Api, role: str, author: str) -> None:
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
            # The former role does not matter.
            await set_member(api, group, actor, role="ADMIN", until=1)
            expected = Refusal("NOT_A_MEMBER", "messageId")
        case "outsider":
            user, expected = dave, NO_MESSAGE
        case "newcomer":
            await api.invite(owner, group, dave)
            user, expected = dave, NO_MESSAGE
    if expected is not None:
        device = await api.listen(owner)
        assert await expect_recall_refusal(api, user, sent) == expected
        await device.expect_no_event(0.02)
        return
    recalled = await api.recall(user, sent)
    assert (recalled["state"], recalled["recalledBy"]) == ("RECALLED", {"id": user})
    # A second recall, by another user who may, does not change who recalled it.
    assert await api.recall(writer, sent) == recalled | {"idempotencyKey": None}


@pytest.mark.parametrize("seconds", [0, 7, 120])
async def test_a_sender_may_recall_until_the_time_limit(open_api: OpenApi, seconds: int) -> None:
    clock = ManualClock()
    limit = {} if seconds == 120 else {"recall_seconds": seconds}
    async with open_api(f"limit {seconds}", clock, **limit) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        for to in (carol, group):
            await api.advance_days(clock, 0)
            sent = [(await api.send(bob, to, text))["message"]["id"] for text in "12"]
            sent_at, clock.ms = clock.ms, clock.ms + seconds * 1000
            recalled = await api.recall(bob, sent[0])
            assert recalled["recalledAt"] == iso(clock.ms)
            clock.ms = sent_at + seconds * 1000 + 1
            assert await expect_recall_refusal(api, bob, sent[1]) == Refusal("RECALL_TIMEOUT", "messageId")
            # A second recall returns the message at any time.
            assert await api.recall(bob, sent[0]) == recalled
        # The time limit applies to senders only.
        await api.advance_days(clock, 30)
        assert await expect_recall_refusal(api, carol, sent[1]) == Refusal("FORBIDDEN", "messageId")
        assert (await api.recall(alice, sent[1]))["state"] == "RECALLED"


@pytest.mark.parametrize("role", ["OWNER", "ADMIN"])
async def test_owners_and_admins_may_recall_their_own_messages_at_any_time(open_api: OpenApi, role: str) -> None:
    clock = ManualClock()
    async with open_api(f"own {role}", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        user = alice if role == "OWNER" else bob
        await set_member(api, group, bob, role="ADMIN")
        sent, private_message = [(await api.send(user, to))["message"]["id"] for to in (group, carol)]
        await api.advance_days(clock, 1)
        assert await expect_recall_refusal(api, user, private_message) == Refusal("RECALL_TIMEOUT", "messageId")
        assert (await api.recall(user, sent))["state"] == "RECALLED"


async def test_a_recalled_message_counts_as_unread(open_api: OpenApi, deployments: Deployments) -> None:
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


async def test_a_recalled_message_keeps_its_edit_count(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]
    edited = await api.edit(alice, sent["id"], "edited")
    recalled = await api.recall(alice, sent["id"])
    assert (recalled["editCount"], recalled["editedAt"]) == (1, edited["editedAt"])


async def test_redis_holds_nothing_of_a_recalled_content(open_api: OpenApi, deployments: Deployments) -> None:
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
