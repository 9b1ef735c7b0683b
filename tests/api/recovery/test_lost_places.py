"""Redis loses a conversation and its outbox while messages and changes are in flight."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.client import Api, Json, gather_all
from tests.api.conftest import Deployments
from tests.api.group_calls import LEAVE
from tests.api.recovery.held_commits import HeldCommits
from tests.api.recovery.sample_conversation import SampleConversation, check_counts, check_stored, evict


async def _lose(api: Api, conversation: str) -> None:
    await evict(api, conversation, "head", "members", "outbox")


async def _check_former_member(api: Api, user: str, group: str, shown: list[Json]) -> None:
    """Check that a former member was shown what they may read, and nothing else."""
    history = await api.history(user, group)
    ranges = (await api.own_group(user, group))["visibleRanges"]
    last = ranges[-1]["toSeq"]
    assert history[-1]["seq"] == last
    seqs = [event["message"]["seq"] for event in shown if event["__typename"] == "MessageCreated"]
    assert all(seq <= last for seq in seqs), (seqs, ranges)
    session = await api.session(user, group)
    assert session is not None
    assert session["writeSeq"] == last


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_a_message_in_flight_keeps_its_place(api: Api, commits: HeldCommits, kind: str) -> None:
    conversation = SampleConversation(api, kind)
    await conversation.create()
    alice, bob, *_ = conversation.users
    count = await check_stored(api, conversation.id)
    commits.hold()
    sent = asyncio.create_task(api.send(alice, conversation.id, "in flight"))
    await commits.wait_for(1)
    await _lose(api, conversation.id)
    await api.session(bob, conversation.id)
    commits.release()
    await sent
    await api.wait_until_idle()
    later = await gather_all(*(api.send(user, conversation.id) for user in (alice, bob, alice)))
    assert sorted(payload["message"]["seq"] for payload in later) == [count + 2, count + 3, count + 4]
    await api.wait_until_idle()
    assert await check_stored(api, conversation.id) == count + 4
    await check_counts(api, conversation.id, conversation.members)


async def test_messages_after_a_system_message_in_flight_are_counted(api: Api, commits: HeldCommits) -> None:
    conversation = SampleConversation(api, "group")
    await conversation.create()
    alice, bob, carol, dave, erin = conversation.users
    commits.hold()
    invited = asyncio.create_task(api.invite(alice, conversation.id, erin))
    await commits.wait_for(1)
    await _lose(api, conversation.id)
    await api.session(bob, conversation.id)
    commits.release()
    await invited
    await api.wait_until_idle()
    await gather_all(*(api.send(user, conversation.id) for user in (bob, carol, dave)))
    await api.wait_until_idle()
    await check_stored(api, conversation.id)
    await check_counts(api, conversation.id, conversation.users)


async def test_a_message_waits_for_a_departure_in_flight(
    api: Api, other_api: Api, commits: HeldCommits, deployments: Deployments
) -> None:
    conversation = SampleConversation(api, "group")
    await conversation.create()
    _, bob, _, dave, _ = conversation.users
    count = await check_stored(api, conversation.id)
    commits.hold()
    departure = asyncio.create_task(api.data(dave, LEAVE, id=conversation.id))
    await commits.wait_for(1)
    later = asyncio.create_task(other_api.send(bob, conversation.id))
    await asyncio.sleep(0.1)
    assert not later.done()
    # The session is read from MongoDB, which does not know the departure yet.
    deployments.evict_user_state("main", dave)
    session = await other_api.session(dave, conversation.id)
    assert session is not None and session["writeSeq"] == count
    commits.release()
    await departure
    assert (await later)["message"]["seq"] == count + 2
    for server in (api, other_api):
        await server.wait_until_idle()
    session = await other_api.session(dave, conversation.id)
    assert session is not None and session["writeSeq"] == count
    assert (await api.history(dave, conversation.id))[-1]["seq"] == count


async def test_a_refused_departure_hides_nothing_that_came_before_it(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    departures = HeldCommits(other_api, monkeypatch)
    conversation = SampleConversation(api, "group")
    await conversation.create()
    alice, bob, _, dave, _ = conversation.users
    count = await check_stored(api, conversation.id)
    for server in (api, other_api):
        # No server takes the departure over.
        await server.services.housekeeper.close()
    departures.hold()
    departure = asyncio.create_task(other_api.data(dave, LEAVE, id=conversation.id))
    await departures.wait_for(1)
    # It waits for two seconds. The departure has a lower place, so it is refused and decided again.
    message = (await api.send(bob, conversation.id))["message"]
    await api.wait_until_idle()
    departures.release()
    await departure
    await other_api.wait_until_idle()
    last_two = (await api.history(alice, conversation.id))[-2:]
    assert [found["seq"] for found in last_two] == [message["seq"], message["seq"] + 1] == [count + 2, count + 3]
    assert last_two[-1]["systemEvent"]["kind"] == "MEMBER_LEFT"
    await _check_former_member(api, dave, conversation.id, [])
    assert (await api.history(dave, conversation.id))[-1]["id"] == message["id"]


async def test_a_former_member_keeps_the_time_of_a_message_that_was_in_flight(
    api: Api, commits: HeldCommits, deployments: Deployments
) -> None:
    conversation = SampleConversation(api, "group")
    await conversation.create()
    alice, bob, _, dave, _ = conversation.users
    commits.hold()
    sent = asyncio.create_task(api.send(bob, conversation.id))
    await commits.wait_for(1)
    departure = asyncio.create_task(api.data(dave, LEAVE, id=conversation.id))
    await commits.wait_for(2)
    deployments.evict_user_state("main", dave)
    await commits.deliver(0)
    await commits.deliver(0)
    await gather_all(sent, departure)
    await api.wait_until_idle()
    session, expected = await api.session(dave, conversation.id), await api.session(alice, conversation.id)
    assert session is not None and expected is not None
    assert session["writeTs"] == expected["writeTs"]


ORDERS = pytest.mark.parametrize(
    "order",
    [("departure", "later", "earlier"), ("later", "departure", "earlier"), ("earlier", "later", "departure")],
    ids="-".join,
)
"""The order in which two messages, and a departure on another server, become durable."""


async def _check_numbers(conversation: SampleConversation, order: tuple[str, ...]) -> None:
    """Check seq, n and what members see. A departure that took the first lost place has moved n (ADR 84)."""
    if order[0] != "departure":
        await check_stored(conversation.api, conversation.id)
        members = [user for user in conversation.members if user != conversation.users[3]]
        await check_counts(conversation.api, conversation.id, members)


async def _deliver(order: tuple[str, ...], messages: HeldCommits, departures: HeldCommits) -> None:
    departures.holds = False
    for name in order:
        if name == "departure":
            await departures.deliver(0)
        else:
            await messages.deliver(1 if name == "later" and len(messages.held) == 2 else 0)


@pytest.mark.parametrize("lost", ["departure", "messages"])
@ORDERS
async def test_a_loss_between_a_departure_and_messages_shows_nothing_hidden(
    api: Api, other_api: Api, commits: HeldCommits, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...], lost: str
) -> None:
    departures = HeldCommits(other_api, monkeypatch)
    conversation = SampleConversation(api, "group")
    await conversation.create()
    alice, bob, carol, dave, _ = conversation.users
    listener = await api.listen(dave)
    tasks: list[asyncio.Task[Any]] = []

    async def depart() -> None:
        tasks.append(asyncio.create_task(other_api.data(dave, LEAVE, id=conversation.id)))
        await departures.wait_for(1)

    async def send_two() -> None:
        for count, user in enumerate((bob, carol), 1):
            tasks.append(asyncio.create_task(api.send(user, conversation.id)))
            await commits.wait_for(count)

    for held in (commits, departures):
        held.hold()
    first, then = (depart, send_two) if lost == "departure" else (send_two, depart)
    await first()
    await _lose(api, conversation.id)
    await then()
    await _deliver(order, commits, departures)
    commits.release()
    await gather_all(*tasks)
    await api.send(alice, conversation.id, "after the departure")
    for server in (api, other_api):
        await server.wait_until_idle()
    await _check_former_member(api, dave, conversation.id, listener.pop_events())
    await _check_numbers(conversation, order)
