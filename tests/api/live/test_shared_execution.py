"""What subscribers are shown is executed once for all who are to see the same, and for nobody else."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from schema.base.loaders import Loaders
from schema.events.receipts import ReceiptAdvancedType
from store.base.errors import Unreachable
from tests.api.client import Api, Json, Subscriber, gather_all, private_id

_names = itertools.count()


def messages(fields: str) -> str:
    """A selection that no other test subscribes with."""
    return f"""subscription ($since: Cursor, $with: Boolean = true) {{ messageEvents(since: $since) {{ __typename
        ... on MessageCreated {{ cursor message {{ own{next(_names)}: id @include(if: $with) {fields} }} }} ... on CaughtUp {{ cursor reset }} }} }}"""


class Counted:
    """Executions of events, receipts apart: sending is reading."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        engine = api.services.engine
        execute = engine.execute_event

        async def counting(executor: Any, shown: object, viewer: Any) -> bytes:
            self.count += not isinstance(shown, ReceiptAdvancedType)
            return await execute(executor, shown, viewer)

        monkeypatch.setattr(engine, "execute_event", counting)

    @asynccontextmanager
    async def times(self, expected: int) -> AsyncIterator[None]:
        self.count = 0
        yield
        assert self.count == expected


@pytest.fixture
def executions(api: Api, monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(api, monkeypatch)


async def all_listen(api: Api, query: str, *users: str, **variables: Any) -> dict[str, list[Subscriber]]:
    """Two devices each."""
    return {user: [await api.listen(user, query, **variables) for _ in range(2)] for user in users}


async def shown(listeners: dict[str, list[Subscriber]]) -> dict[str, Json]:
    """The next message as each user is shown it, on both of their devices alike."""
    seen = {}
    for user, (one, other) in listeners.items():
        first, second = await gather_all(one.next(), other.next())
        assert first == second
        seen[user] = first["message"]
    return seen


async def test_what_only_the_sender_sees_is_shown_to_the_sender_alone(api: Api, executions: Counted) -> None:
    alice, *others = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, *others)
    listeners = await all_listen(api, messages("idempotencyKey delivery { recipientCount }"), alice, *others)
    async with executions.times(2):
        await api.send(alice, group, idempotencyKey="secret")
        seen = await shown(listeners)
    assert (seen[alice]["idempotencyKey"], seen[alice]["delivery"]) == ("secret", {"recipientCount": 3})
    assert all(seen[user]["idempotencyKey"] is None and seen[user]["delivery"] is None for user in others)
    # Who is not there to see it costs no execution.
    for device in listeners.pop(alice):
        await device.stop()
    async with executions.times(1):
        await api.send(alice, group, idempotencyKey="another")
        seen = await shown(listeners)
    assert {seen[user]["idempotencyKey"] for user in others} == {None}


async def test_the_receipts_of_a_message_are_their_senders_among_many_who_listen(api: Api, executions: Counted) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    fields = "receipts(first: 2) { edges { node { user { id } status } } }"
    listeners = await all_listen(api, messages(fields), bob, carol, dave, alice)
    async with executions.times(2):
        await api.send(carol, group)
        seen = await shown(listeners)
    told = [edge["node"]["user"]["id"] for edge in seen[carol].pop("receipts")["edges"]]
    assert told == sorted((alice, bob, dave))[:2]
    assert {seen[user].pop("receipts") for user in (alice, bob, dave)} == {None}


@pytest.mark.parametrize("history", ["SINCE_JOIN", "FULL"])
async def test_a_quoted_message_is_shown_to_those_who_may_read_it(api: Api, executions: Counted, history: str) -> None:
    alice, bob, carol, late, later = await api.create_users("alice", "bob", "carol", "late", "later")
    group = await api.create_group(alice, bob, carol, historyVisibility=history)
    quoted = (await api.send(alice, group, "before they came", idempotencyKey="own"))["message"]["id"]
    await api.invite(bob, group, late, later)
    fields = "replyTo { content sender { id } idempotencyKey }"
    listeners = await all_listen(api, messages(fields), alice, bob, carol, late, later)
    # Who wrote what is quoted, who may read it, who may not: however many each are.
    async with executions.times(3 if history == "SINCE_JOIN" else 2):
        await api.send(bob, group, "quoting", replyToId=quoted)
        seen = await shown(listeners)
    found = {"content": "before they came", "sender": {"id": alice}, "idempotencyKey": None}
    assert seen[alice]["replyTo"] == found | {"idempotencyKey": "own"}
    assert seen[bob]["replyTo"] == seen[carol]["replyTo"] == found
    assert seen[late]["replyTo"] == seen[later]["replyTo"] == (None if history == "SINCE_JOIN" else found)


async def test_variables_of_the_selection_are_part_of_it_and_the_cursor_is_not(api: Api, executions: Counted) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    query = messages("content @include(if: $with)")
    since = [(await (await api.subscribe(bob, query)).next())["cursor"] for _ in range(2)]
    await api.send(alice, bob)
    since.append((await (await api.subscribe(bob, query)).next())["cursor"])
    assert len(set(since)) == 2
    plain = [await api.listen(bob, query, **variables) for variables in ({}, {"with": True}, {"since": since[-1]})]
    without = await api.listen(bob, query, **{"with": False})
    async with executions.times(2):
        await api.send(alice, bob, "hello")
        events = [await listener.next() for listener in [*plain, without]]
    assert [event["message"].get("content") for event in events] == ["hello", "hello", "hello", None]
    assert len({event["cursor"] for event in events}) == 1


async def test_changes_of_sessions_are_executed_once_for_all_devices_of_their_user(
    api: Api, executions: Counted
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    query = f"""subscription {{ syncSession {{ own{next(_names)}: cursor reason reset cursor totalUnread
        sessions {{ id lastMessage {{ content }} conversation {{ title }} }} }} }}"""
    devices = [await api.listen(user, query) for user in (alice, alice, alice, bob)]
    async with executions.times(1):
        await api.mark_read(alice, private_id(alice, bob))
        events = [await device.next() for device in devices[:3]]
    assert events[0] == events[1] == events[2]
    assert events[0]["sessions"][0]["conversation"] == {"title": bob}
    # The cursor is in every place where it was asked for.
    (own,) = (value for name, value in events[0].items() if name.startswith("own"))
    assert own == events[0]["cursor"]


async def test_an_event_waits_for_a_database_that_is_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    listener = await api.listen(bob, messages("seq sender { displayName }"))
    load, failures = Loaders._load_users, itertools.count()

    async def away(loaders: Loaders, wanted: Any) -> Any:
        if loaders._viewer.is_shared and next(failures) < 2:
            raise Unreachable("not there")
        return await load(loaders, wanted)

    # As for somebody whom this process has not met.
    monkeypatch.setattr(Loaders, "user", lambda loaders, user: loaders.users.load(user))
    monkeypatch.setattr(Loaders, "_load_users", away)
    await api.send(alice, bob)
    await api.send(alice, bob)
    events = await listener.take(2)
    assert [event["message"]["seq"] for event in events] == [2, 3]
    assert next(failures) > 2
