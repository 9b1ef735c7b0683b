"""`confab admin explain`: it counts messages as the API does, and finds counts that are wrong."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

import orjson
import pytest

from server.cli import commands as cli
from server.cli.admin import commands as admin
from store.admin.unread import explanation
from store.base.ids import ConversationId, UserId
from store.messages.message_store import Place
from store.redis.cache import Call
from tests.api.channels.calls import make_workspace
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import Api
from tests.api.group_calls import DISSOLVE, LEAVE, REMOVE
from tests.api.session_calls import DELETE, MARK_READ, MUTE, SESSION
from tests.api.threads.calls import thread_of
from tests.server.admin.conftest import Json, RunAdmin, Show

FIND = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"
AT_ONCE = ("--settle-seconds", "0")


async def send_many(api: Api, sender: str, to: str, count: int) -> list[Json]:
    return [await api.send(sender, to, f"hello {number}") for number in range(count)]


async def explain(api: Api, show: Show, user: str, conversation: str) -> Json:
    """Return an explanation whose count is that of the API, before and after the state is cached."""
    await api.wait_until_idle()
    await api.services.app.store.cache.one(Call("DEL", api.services.app.store.keys.user(UserId(user))))
    before = await show("explain", user, conversation, *AT_ONCE)
    session = (await api.data(user, FIND, id=conversation))["session"]
    after = await show("explain", user, conversation, *AT_ONCE)
    expected = session["unreadCount"] if session is not None else 0
    assert before["cached"]["is_loaded"] is False
    for view in (before, after):
        assert view["agrees"], view
        assert (view["unread"]["counted_messages"], view["unread"]["stored"]) == (expected, expected)
    assert after["unread"]["cached"] == expected
    return after


async def test_messages_of_others_count_and_system_messages_do_not(api: Api, show: Show) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    first, *_ = await send_many(api, alice, group, 2)
    await api.invite(alice, group, dave)
    await send_many(api, alice, group, 2)
    view = await explain(api, show, bob, group)
    seq = first["message"]["seq"]
    assert view["verdict"][0] == f"4 unread: messages {seq} to {seq + 1} and {seq + 3} to {seq + 4}."
    assert f"Message {seq + 2} is a system message and does not count." in view["verdict"]
    assert [each["counts"] for each in view["messages"]["listed"]][-5:] == [True, True, False, True, True]


async def test_own_messages_read_everything_before_them(api: Api, show: Show) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await send_many(api, alice, group, 3)
    own = await api.send(bob, group)
    await send_many(api, alice, group, 1)
    view = await explain(api, show, bob, group)
    assert view["unread"]["counted_messages"] == 1
    assert view["stored"]["session"]["readSeq"] == own["message"]["seq"]


async def test_private_conversations_and_reading(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 4)
    private = sent[0]["message"]["conversationId"]
    await api.data(bob, MARK_READ, id=private, seq=2)
    view = await explain(api, show, bob, private)
    assert view["verdict"][:2] == ["2 unread: messages 3 to 4.", "The user has read up to seq 2 of 4."]
    assert (await explain(api, show, alice, private))["verdict"][0] == "0 unread: everything up to seq 4 is read."


async def test_recalled_messages_count_until_they_are_read(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 3)
    private = sent[0]["message"]["conversationId"]
    await api.recall(alice, sent[1]["message"]["id"])
    view = await explain(api, show, bob, private)
    assert view["unread"]["counted_messages"] == 3
    assert "Message 2 is recalled, and counts until it is read." in view["verdict"]


async def test_muted_sessions_count_but_not_in_the_total(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 2)
    private = sent[0]["message"]["conversationId"]
    await api.data(bob, MUTE, id=private, muted=True)
    view = await explain(api, show, bob, private)
    assert "The session is muted: its messages are not in the user's total." in view["verdict"]
    assert view["cached"]["total_unread_without_waiting_messages"] == 0


async def test_deleted_sessions_count_only_later_messages(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 2)
    private = sent[0]["message"]["conversationId"]
    await api.data(bob, DELETE, id=private)
    view = await explain(api, show, bob, private)
    assert view["verdict"][0] == (
        "0 unread: the user deleted the session at seq 2, and no message came since that counts."
    )
    await send_many(api, alice, bob, 1)
    view = await explain(api, show, bob, private)
    assert view["verdict"][0] == "1 unread: message 3."
    assert view["verdict"][1].startswith("The user deleted the session at seq 2, so everything up to there counts")


async def test_expired_messages_do_not_count(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 4)
    private = ConversationId(sent[0]["message"]["conversationId"])
    await api.wait_until_idle()
    retention = api.services.app.store.retention
    await retention._floors.raise_many({private: Place(3, 3)})
    await retention._sessions.apply([private])
    view = await explain(api, show, bob, private)
    assert view["verdict"][:2] == ["1 unread: message 4.", "Messages up to seq 3 are expired, so they do not count."]
    assert (await show("conversation", private))["retention"]["messages_up_to_seq_are_expired"] == 3


async def test_former_members_and_members_who_join_again(api: Api, show: Show) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await send_many(api, alice, group, 2)
    await api.data(bob, LEAVE, id=group)
    await send_many(api, alice, group, 2)
    left = await explain(api, show, bob, group)
    assert left["unread"]["counted_messages"] == 2
    assert left["stored"]["membership"]["is_current"] is False
    assert any(sentence.startswith("The user has left: messages after seq") for sentence in left["verdict"])
    await api.invite(alice, group, bob)
    await send_many(api, alice, group, 1)
    again = await explain(api, show, bob, group)
    assert again["unread"]["counted_messages"] == 1
    assert len(again["stored"]["membership"]["intervals"]) == 2
    await api.data(alice, REMOVE, id=group, user=carol)
    await api.data(alice, DISSOLVE, id=group)
    ended = await explain(api, show, bob, group)
    assert ended["verdict"][0] == "0 unread: the group has ended."


async def test_followed_threads(api: Api, show: Show) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    parent = (await api.send(bob, group))["message"]
    thread = thread_of(parent)
    await api.send(bob, parent["id"], "first reply")
    for number in range(3):
        await api.send(alice, parent["id"], f"reply {number}")
    await api.wait_until_idle()
    view = await explain(api, show, bob, thread)
    assert (view["kind"], view["unread"]["counted_messages"]) == ("THREAD", 3)
    assert view["stored"]["session"]["follows"] is True
    outside = await show("explain", carol, thread, *AT_ONCE)
    assert outside["verdict"][0] == "The user has no session here, so there is no unread count."


async def test_channels_take_their_counts_from_the_head(api: Api, show: Show) -> None:
    made = await make_workspace(api)
    channel = (await made.create())["id"]
    await api.data(made.member, FOLLOW, id=channel)
    await send_many(api, made.owner, channel, 3)
    view = await explain(api, show, made.member, channel)
    assert view["unread"]["counted_messages"] == 3
    assert view["stored"]["can_see_the_channel"] is True
    outside = await show("explain", made.outsider, channel, *AT_ONCE)
    assert outside["verdict"][0] == "The user cannot see the channel, so there is no unread count."


async def test_messages_that_wait_in_redis_are_in_the_explanation(api: Api, show: Show) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.listen(bob)
    await api.data(bob, FIND, id=group)
    await send_many(api, alice, group, 3)
    await api.wait_until_idle()
    view = await show("explain", bob, group, *AT_ONCE)
    waiting = view["cached"]["session"]["counted_messages"], view["unread"]["cached"]
    assert waiting == (0, 3)
    assert view["cached"]["conversations_with_waiting_messages"] == 1
    assert (
        "3 counted messages wait in Redis to be folded into the session; the next request does it." in view["verdict"]
    )
    session = (await api.data(bob, FIND, id=group))["session"]
    assert session["unreadCount"] == 3


async def wrong_record(api: Api, user: str, conversation: str, **fields: Any) -> None:
    """Change fields of a cached record, as a bug would."""
    store = api.services.app.store
    key = store.keys.of_user(UserId(user), "sessions")
    record = orjson.loads(await store.cache.one(Call("HGET", (key,), (conversation,))))
    await store.cache.one(Call("HSET", (key,), (conversation, orjson.dumps(record | fields))))


async def test_a_wrong_cached_count_is_found_and_repaired(
    api: Api, run_admin: RunAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 3)
    private = sent[0]["message"]["conversationId"]
    await api.data(bob, FIND, id=private)
    await api.wait_until_idle()
    await wrong_record(api, bob, private, rn=2)
    code, out, _ = await run_admin("explain", bob, private, *AT_ONCE)
    assert code == 1
    verdict, _, rest = out.partition("\n\n")
    assert verdict.splitlines()[0] == "3 unread: messages 1 to 3."
    assert "Redis shows 1 unread, but MongoDB gives 3: the user sees the count of Redis." in verdict
    repair = f"confab check --only cached-sessions --user {bob} --repair"
    assert f"Repair it with `{repair}`." in verdict
    assert "agrees: no" in rest

    assert await run_command(monkeypatch, repair) == 0
    code, out, _ = await run_admin("explain", bob, private, "--json", *AT_ONCE)
    assert (code, json.loads(out)["agrees"]) == (0, True)


async def run_command(monkeypatch: pytest.MonkeyPatch, command: str) -> int:
    """Run a command as an operator would type it, without waiting for differences to settle."""

    def run() -> int:
        monkeypatch.setattr(sys, "argv", [*command.split(), "--settle-seconds", "0"])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert isinstance(caught.value.code, int)
        return caught.value.code

    return await asyncio.to_thread(run)


async def test_a_wrong_head_is_found_and_repaired(
    api: Api, run_admin: RunAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 3)
    private = sent[0]["message"]["conversationId"]
    await api.wait_until_idle()
    api.database["conversations"].update_one({"_id": private}, {"$inc": {"n": 5}})
    code, out, _ = await run_admin("explain", bob, private, "--json", *AT_ONCE)
    view = json.loads(out)
    assert code == 1
    assert (view["unread"]["counted_messages"], view["unread"]["stored"]) == (3, 8)
    found = view["differences"][0]
    assert found["text"] == "The stored count is 8, but the messages give 3."
    assert found["repair"] == f"confab check --only heads --conversation {private} --repair"
    assert await run_command(monkeypatch, found["repair"]) == 0
    assert (await run_admin("explain", bob, private, *AT_ONCE))[0] == 0


async def test_a_wrong_number_in_a_message_cannot_be_repaired(api: Api, run_admin: RunAdmin) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 3)
    private = sent[0]["message"]["conversationId"]
    await api.data(bob, MARK_READ, id=private, seq=1)
    await api.wait_until_idle()
    api.database["messages"].update_one({"c": private, "s": 1}, {"$set": {"n": 7}})
    code, out, _ = await run_admin("explain", bob, private, "--json", *AT_ONCE)
    found = json.loads(out)["differences"][0]
    assert code == 1
    assert found["repair"] is None
    assert found["text"] == "The row counts 1 messages up to seq 1, but message 1 has number 7."


async def test_a_difference_of_a_moment_is_not_reported(api: Api, show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await send_many(api, alice, bob, 2)
    private = sent[0]["message"]["conversationId"]
    await api.data(bob, FIND, id=private)
    await api.wait_until_idle()
    api.database["conversations"].update_one({"_id": private}, {"$inc": {"n": 1}})
    readings: list[bool] = []
    explain_once = explanation._explain

    async def correct_afterwards(*args: Any) -> Json:
        view = await explain_once(*args)
        api.database["conversations"].update_one({"_id": private}, {"$set": {"n": 2}})
        readings.append(view["agrees"])
        return view

    monkeypatch.setattr(explanation, "_explain", correct_afterwards)
    await show("explain", bob, private, *AT_ONCE)
    assert readings == [False, True]


async def test_texts_are_shown_only_on_request(api: Api, run_admin: RunAdmin) -> None:
    alice, bob = await api.create_users("alice", "bob")
    private = (await api.send(alice, bob, "the secret recipe"))["message"]["conversationId"]
    await api.wait_until_idle()
    for command in (("explain", bob, private), ("conversation", private)):
        assert "secret recipe" not in "".join((await run_admin(*command))[1:])
        assert "secret recipe" in (await run_admin(*command, "--texts"))[1]


def test_the_default_settle_time_is_the_total_of_the_pauses() -> None:
    default = inspect.signature(admin.explain).parameters["settle_seconds"].default
    assert default == sum(explanation.SETTLE_SECONDS)
