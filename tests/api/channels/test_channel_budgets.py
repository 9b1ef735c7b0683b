"""Round trips of requests about channels when everything is cached."""

from __future__ import annotations

from itertools import count

import pytest

from tests.api.client import Api
from tests.api.requests.test_budgets import RUNS, Meter
from tests.api.sample_channels import SampleChannels

PAGE = """query ($id: ID!) { messages(conversationId: $id, last: 50) { edges { node {
    id content authorName sender { displayName } replyTo { content } mentionedRoles { name } } } } }"""


@pytest.fixture
def meter(api: Api) -> Meter:
    return Meter(api)


@pytest.mark.parametrize("channel", ["general", "staff"])
async def test_budget_of_sending_to_a_channel(meter: Meter, workspace: SampleChannels, channel: str) -> None:
    to = getattr(workspace, channel)
    await meter.expect("sendMessage, channel", lambda: meter.send(workspace.member, to), 1, 2)
    mentions = [workspace.moderator]
    await meter.expect("sendMessage, mention", lambda: meter.send(workspace.member, to, mentions=mentions), 1, 2)
    keys = count()
    await meter.expect(
        "sendMessage, key", lambda: meter.send(workspace.member, to, idempotencyKey=f"{channel} {next(keys)}"), 1, 3
    )


async def test_budget_of_a_page_of_messages_in_a_channel(meter: Meter, workspace: SampleChannels) -> None:
    first = (await meter.api.send(workspace.member, workspace.general))["message"]["id"]
    for _ in range(5):
        await meter.api.send(
            workspace.member, workspace.general, replyToId=first, mentionRoleIds=[workspace.guide_role]
        )

    async def page() -> None:
        await meter.api.data(workspace.other, PAGE, id=workspace.general)

    # An earlier reader has read the messages, also those that are replied to.
    await meter.expect("messages", page, 0, 2)

    async def evict() -> None:
        meter.api.services.app.store.newest_messages._windows.clear()

    # The messages that are replied to are among those of the page.
    await meter.expect("messages, not in memory", page, 1, 2, prepare=evict)


async def test_budget_of_a_channel(meter: Meter, workspace: SampleChannels) -> None:
    await meter.api.send(workspace.member, workspace.general)
    query = "query ($id: ID!) { channel(id: $id) { name messageCount viewerPermissions lastMessage { content } } }"

    async def find() -> None:
        await meter.api.data(workspace.other, query, id=workspace.general)

    # The workspace's rev is read before the channel, so that the channel includes everything up to it.
    await meter.expect("channel", find, 0, 3)


async def test_an_invisible_channel_takes_the_round_trips_of_one_that_does_not_exist(
    meter: Meter, workspace: SampleChannels
) -> None:
    await meter.api.send(workspace.member, workspace.staff)
    unknown = workspace.staff.rpartition(".")[0] + ".99"
    query = "query ($id: ID!) { messages(conversationId: $id) { edges { cursor } } }"
    for user in (workspace.other, workspace.outsider):
        trips = []
        for channel in (unknown, workspace.staff):

            async def read(channel: str = channel, user: str = user) -> None:
                assert (await meter.api.data(user, query, id=channel))["messages"] is None

            async def send(channel: str = channel, user: str = user) -> None:
                assert (await meter.api.expect_send_refusal(user, channel)).code == "NOT_FOUND"

            trips.append((await meter.measure(read, None), await meter.measure(send, None)))
        assert trips[0] == trips[1]


async def test_hidden_and_missing_channels_cost_the_same_without_caches(
    meter: Meter, workspace: SampleChannels
) -> None:
    store, trips = workspace.store, []
    unknown = workspace.staff.rpartition(".")[0] + ".98"
    query = "query ($id: ID!) { channel(id: $id) { id } }"
    # The first refusal in a workspace caches its policy version.
    await meter.api.data(workspace.other, query, id=unknown)
    for channel in (workspace.staff, unknown):
        runs = []
        for _ in range(RUNS):
            store.channel_rights.members._kept.clear()
            before = store.mongo.trips
            assert (await meter.api.data(workspace.other, query, id=channel))["channel"] is None
            runs.append(store.mongo.trips - before)
        # Housekeeping may add to single runs.
        trips.append(min(runs))
    assert trips == [1, 1]
