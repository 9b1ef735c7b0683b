"""Round trips and work that searches cost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from resolvers.search.message_search import CONVERSATION_UNITS
from resolvers.search.search_run import MESSAGE_UNITS
from store.base.ids import UserId
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import Api, private_id
from tests.api.conftest import OpenApi
from tests.api.requests.test_budgets import Meter
from tests.api.sample_channels import SampleChannels
from tests.api.search.calls import SEARCH, refused, search, wait_until_indexed

WITH_SENDERS = SEARCH.replace("sender { id }", "sender { id displayName } replyTo { id } mentions { id }")


@pytest.mark.parametrize("kind", ["private", "group", "channel"])
async def test_budget_of_a_search(api: Api, workspace: SampleChannels, kind: str) -> None:
    meter = Meter(api)
    alice, bob = workspace.member, workspace.other
    group = await api.create_group(alice, bob, workspace.moderator)
    await api.data(alice, FOLLOW, id=workspace.general)
    conversation = {"private": private_id(alice, bob), "group": group, "channel": workspace.general}[kind]
    first = (await api.send(bob, alice if kind == "private" else conversation, "tea 0"))["message"]["id"]
    for number in range(1, 40):
        await api.send(bob, conversation, f"tea {number}", replyToId=first)
    await wait_until_indexed(api)
    named = {"conversationIds": [conversation]}

    async def find(query: str, **filters: list[str]) -> None:
        assert len((await search(api, alice, query, first=25, **filters))["edges"]) == 25

    for query in ('"tea"', "te"):
        await meter.expect(f"searchMessages, named, {query}", lambda q=query: find(q, **named), 2, 1)
        await meter.expect(f"searchMessages, {query}", lambda q=query: find(q), 2, 2)
    cursor = (await search(api, alice, '"tea"', first=25))["pageInfo"]["endCursor"]
    await meter.expect("next page", lambda: search(api, alice, '"tea"', first=25, cursor=cursor), 2, 2)
    await meter.expect("nothing found", lambda: search(api, alice, '"coffee"', first=25), 1, 1)


async def test_budget_of_results_with_their_senders(api: Api) -> None:
    meter = Meter(api)
    alice, bob = await api.create_users("alice", "bob")
    first = (await api.send(bob, alice, "tea"))["message"]["id"]
    await api.send(bob, private_id(alice, bob), "more tea", replyToId=first)
    await wait_until_indexed(api)
    # One read for all senders, and one for all messages that were replied to.
    await meter.expect("results with senders", lambda: api.data(alice, WITH_SENDERS, query="tea", first=25), 3, 3)


@pytest.fixture
async def small(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("small", work_per_second=1, work_budget=5_000) as api:
        yield api


async def test_a_search_costs_units_for_conversations_and_messages(small: Api) -> None:
    alice, *others = await small.create_users("alice", *(f"u{number}" for number in range(10)))
    for other in others:
        await small.send(other, alice, "tea")
    work = small.services.app.work
    work._full_at.clear()
    await search(small, alice, '"tea"', first=10)
    spent = 5_000 - work.remaining(UserId(alice))
    searched = 10 * CONVERSATION_UNITS + 10 * MESSAGE_UNITS
    assert searched + 100 < spent < searched + 400
    work.charge(UserId(alice), 5_000)
    assert (await refused(small, alice, "tea")).code == "RATE_LIMITED"
