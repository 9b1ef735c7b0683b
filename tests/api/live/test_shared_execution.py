"""One execution of an event serves all subscribers that see the same, and no others."""

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


def unique_subscription(fields: str) -> str:
    """Return a subscription with a selection that no other test uses."""
    return f"""subscription ($since: Cursor, $with: Boolean = true) {{ messageEvents(since: $since) {{ __typename
        ... on MessageCreated {{ cursor message {{ own{next(_names)}: id @include(if: $with) {fields} }} }} ...
        on CaughtUp {{ cursor reset }} }} }}"""


class ExecutionCounter:
    """Counts executions of events, except receipts: sending a message reads."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        engine = api.services.engine
        execute = engine.execute_event

        def count_and_execute(executor: Any, next_messages: object, viewer: Any, user: Any) -> Any:
            self.count += not isinstance(next_messages, ReceiptAdvancedType)
            return execute(executor, next_messages, viewer, user)

        monkeypatch.setattr(engine, "execute_event", count_and_execute)

    @asynccontextmanager
    async def expect(self, expected: int) -> AsyncIterator[None]:
        self.count = 0
        yield
        assert self.count == expected


@pytest.fixture
def executions(api: Api, monkeypatch: pytest.MonkeyPatch) -> ExecutionCounter:
    return ExecutionCounter(api, monkeypatch)


async def listen_twice_each(api: Api, query: str, *users: str, **variables: Any) -> dict[str, list[Subscriber]]:
    """Open two subscriptions for each user."""
    return {user: [await api.listen(user, query, **variables) for _ in range(2)] for user in users}


async def next_messages(listeners: dict[str, list[Subscriber]]) -> dict[str, Json]:
    """Return the next message as each user sees it. Both devices of a user must see the same."""
    views = {}
    for user, (first_device, second_device) in listeners.items():
        first, second = await gather_all(first_device.next(), second_device.next())
        assert first == second
        views[user] = first["message"]
    return views


async def test_fields_for_the_sender_are_shown_to_the_sender_only(api: Api, executions: ExecutionCounter) -> None:
    alice, *others = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, *others)
    listeners = await listen_twice_each(
        api, unique_subscription("idempotencyKey delivery { recipientCount }"), alice, *others
    )
    async with executions.expect(2):
        await api.send(alice, group, idempotencyKey="secret")
        views = await next_messages(listeners)
    assert (views[alice]["idempotencyKey"], views[alice]["delivery"]) == ("secret", {"recipientCount": 3})
    assert all(views[user]["idempotencyKey"] is None and views[user]["delivery"] is None for user in others)
    # A sender who does not listen costs no execution.
    for device in listeners.pop(alice):
        await device.stop()
    async with executions.expect(1):
        await api.send(alice, group, idempotencyKey="another")
        views = await next_messages(listeners)
    assert {views[user]["idempotencyKey"] for user in others} == {None}


async def test_receipts_are_shown_only_to_the_sender_among_many_listeners(
    api: Api, executions: ExecutionCounter
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    fields = "receipts(first: 2) { edges { node { user { id } status } } }"
    listeners = await listen_twice_each(api, unique_subscription(fields), bob, carol, dave, alice)
    async with executions.expect(2):
        await api.send(carol, group)
        views = await next_messages(listeners)
    recipients = [edge["node"]["user"]["id"] for edge in views[carol].pop("receipts")["edges"]]
    assert recipients == sorted((alice, bob, dave))[:2]
    assert {views[user].pop("receipts") for user in (alice, bob, dave)} == {None}


@pytest.mark.parametrize("history", ["SINCE_JOIN", "FULL"])
async def test_a_quoted_message_is_shown_to_users_who_may_read_it(
    api: Api, executions: ExecutionCounter, history: str
) -> None:
    alice, bob, carol, new_member, other_new_member = await api.create_users("alice", "bob", "carol", "late", "later")
    group = await api.create_group(alice, bob, carol, historyVisibility=history)
    quoted = (await api.send(alice, group, "before they came", idempotencyKey="own"))["message"]["id"]
    await api.invite(bob, group, new_member, other_new_member)
    fields = "replyTo { content sender { id } idempotencyKey }"
    listeners = await listen_twice_each(
        api, unique_subscription(fields), alice, bob, carol, new_member, other_new_member
    )
    # One execution each for the author of the quoted message, for users who may read it, and for users who may not.
    async with executions.expect(3 if history == "SINCE_JOIN" else 2):
        await api.send(bob, group, "quoting", replyToId=quoted)
        views = await next_messages(listeners)
    expected = {"content": "before they came", "sender": {"id": alice}, "idempotencyKey": None}
    assert views[alice]["replyTo"] == expected | {"idempotencyKey": "own"}
    assert views[bob]["replyTo"] == views[carol]["replyTo"] == expected
    assert (
        views[new_member]["replyTo"]
        == views[other_new_member]["replyTo"]
        == (None if history == "SINCE_JOIN" else expected)
    )


async def test_variables_but_not_the_cursor_distinguish_selections(api: Api, executions: ExecutionCounter) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    query = unique_subscription("content @include(if: $with)")
    since = [(await (await api.subscribe(bob, query)).next())["cursor"] for _ in range(2)]
    await api.send(alice, bob)
    since.append((await (await api.subscribe(bob, query)).next())["cursor"])
    assert len(set(since)) == 2
    same_selection = [
        await api.listen(bob, query, **variables) for variables in ({}, {"with": True}, {"since": since[-1]})
    ]
    other_selection = await api.listen(bob, query, **{"with": False})
    async with executions.expect(2):
        await api.send(alice, bob, "hello")
        events = [await listener.next() for listener in [*same_selection, other_selection]]
    assert [event["message"].get("content") for event in events] == ["hello", "hello", "hello", None]
    assert len({event["cursor"] for event in events}) == 1


async def test_a_session_event_is_executed_once_for_all_devices_of_a_user(
    api: Api, executions: ExecutionCounter
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    query = f"""subscription {{ syncSession {{ own{next(_names)}: cursor reason reset cursor totalUnread
        sessions {{ id lastMessage {{ content }} conversation {{ title }} }} }} }}"""
    devices = [await api.listen(user, query) for user in (alice, alice, alice, bob)]
    async with executions.expect(1):
        await api.mark_read(alice, private_id(alice, bob))
        events = [await device.next() for device in devices[:3]]
    assert events[0] == events[1] == events[2]
    assert events[0]["sessions"][0]["conversation"] == {"title": bob}
    # The cursor is in every field that asks for it.
    (aliased_cursor,) = (value for name, value in events[0].items() if name.startswith("own"))
    assert aliased_cursor == events[0]["cursor"]


async def test_an_event_is_retried_while_the_database_is_unreachable(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    listener = await api.listen(bob, unique_subscription("seq sender { displayName }"))
    load, failures = Loaders._load_users, itertools.count()

    async def fail_twice(loaders: Loaders, user_ids: Any) -> Any:
        if loaders._viewer.is_shared and next(failures) < 2:
            raise Unreachable("not there")
        return await load(loaders, user_ids)

    # Read users as this process does when it has not met them.
    monkeypatch.setattr(Loaders, "user", lambda loaders, user: loaders.users.load(user))
    monkeypatch.setattr(Loaders, "_load_users", fail_twice)
    await api.send(alice, bob)
    await api.send(alice, bob)
    events = await listener.take(2)
    assert [event["message"]["seq"] for event in events] == [2, 3]
    assert next(failures) > 2
