"""Round trips that reactions wait for when everything is cached, compared with the budgets."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest

from tests.api.client import HISTORY, Api, Json, gather_all, private_id
from tests.api.reactions.calls import REACTIONS, react, reactors_of, shown
from tests.api.requests.test_budgets import Meter
from tests.api.sample_channels import SampleChannels

PAGE = HISTORY.replace("editCount", f"editCount {REACTIONS}", 1)


@pytest.mark.parametrize("kind", ["private", "group", "channel"])
async def test_budget_of_adding_a_reaction(api: Api, workspace: SampleChannels, kind: str) -> None:
    meter = Meter(api)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    place = {"private": bob, "group": await api.create_group(alice, bob, carol), "channel": workspace.general}[kind]
    user = workspace.member if kind == "channel" else alice
    sent = (await api.send(user, place))["message"]["id"]
    emoji = cycle(f":n{number}:" for number in range(20))
    # The message and the transaction; the access, the announcement and the conversation's head.
    await meter.expect(f"addReaction, {kind}", lambda: react(api, user, sent, next(emoji)), 2, 3)
    await meter.expect(f"addReaction, repeated, {kind}", lambda: react(api, user, sent, ":n0:"), 1, 1)
    await meter.expect(f"reactors, {kind}", lambda: reactors_of(api, user, sent, ":n0:"), 2, 1)


async def test_reactions_to_one_message_at_once_share_transactions(api: Api) -> None:
    users = await api.create_users(*(f"u{number}" for number in range(50)))
    group = await api.create_group(*users)
    sent = (await api.send(users[0], group))["message"]["id"]
    await api.wait_until_idle()
    store = api.services.app.store
    before = store.mongo.trips
    await gather_all(*(react(api, user, sent) for user in users))
    # Each reads the message. One transaction for the first, one for those that came meanwhile, a few for late ones.
    assert store.mongo.trips - before <= len(users) + 10


async def test_budget_of_a_page_of_messages_with_reactions(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter(api)
    users = await api.create_users(*(f"u{number}" for number in range(12)))
    alice = users[0]
    group = await api.create_group(*users)
    sent = [(await api.send(alice, group))["message"]["id"] for _ in range(10)]
    await gather_all(*(react(api, user, message) for user in users[1:] for message in sent))
    await api.wait_until_idle()

    async def page() -> list[Json]:
        found = (await api.data(alice, PAGE, id=group, last=50))["messages"]
        return [edge["node"] for edge in found["edges"]]

    without = await meter.measure(lambda: api.data(alice, HISTORY, id=group, last=50), None)
    assert await meter.measure(page, None) == without
    assert {tuple(shown(message)) for message in await page()} == {(("👍", 11, False),)}
    # More users than summaries have room for: whether the viewer is among them takes one read, for the whole page.
    monkeypatch.setattr("store.reactions.reaction_draft.MOST_KEYS", 0)
    await gather_all(*(react(api, alice, message) for message in sent[:5]))
    assert await meter.measure(page, None) == replace(without, mongo=without.mongo + 1)
    assert [shown(message)[0][2] for message in await page()] == [True] * 5 + [False] * 5


async def test_budget_of_a_page_of_a_private_conversation(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    await react(api, bob, sent)
    await Meter(api).expect(
        "messages with reactions", lambda: api.data(alice, PAGE, id=private_id(alice, bob), last=50), 1, 1
    )
