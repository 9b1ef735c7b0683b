"""The events of reactions in channels under the rights of each subscriber, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from store.redis.cache import Cache, Call
from store.workspaces.permissions import Permission
from tests.api.channels.channel_subscriber import tell
from tests.api.channels.conftest import workspace as workspace  # a fixture
from tests.api.client import Api, cancel_tasks, gather_all
from tests.api.live.test_shared_execution import ExecutionCounter
from tests.api.live.test_shared_execution import executions as executions  # a fixture
from tests.api.reactions.calls import react
from tests.api.sample_channels import SampleChannels
from tests.api.watching.events import CHANNEL_EVENTS, counts, look, missed, published, set_interval


async def test_without_history_only_reactions_to_shown_messages_are_shown(api: Api, workspace: SampleChannels) -> None:
    old = (await api.send(workspace.member, workspace.general))["message"]
    await workspace.overwrite(workspace.general, workspace.other, Permission.READ_HISTORY)
    subscriber, rev = await look(api, workspace.other, workspace.general)
    new = (await api.send(workspace.member, workspace.general))["message"]
    assert (await subscriber.next())["message"]["id"] == new["id"]
    for message in (old, new):
        await react(api, workspace.member, message["id"])
        await published(api)
    event = await subscriber.next()
    assert (event["messageId"], counts(event)) == (new["id"], {"👍": 1})
    await subscriber.stop()
    events, _ = await missed((await look(api, workspace.other, workspace.general, rev))[0])
    assert events == []


async def test_users_who_cannot_see_a_channel_any_more_get_no_reactions(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    sent = (await api.send(workspace.member, workspace.general))["message"]
    hidden, _ = await look(other_api, workspace.other, workspace.general)
    seeing, _ = await look(other_api, workspace.member, workspace.general)
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    await tell(api, workspace)
    assert (await hidden.next())["__typename"] == "AccessEnded"
    await react(api, workspace.owner, sent["id"])
    assert counts(await seeing.next()) == {"👍": 1}
    await hidden.expect_no_event()


async def test_an_event_is_executed_once_for_viewers_with_the_same_reactions(
    api: Api, workspace: SampleChannels, executions: ExecutionCounter
) -> None:
    sent = (await api.send(workspace.member, workspace.general))["message"]
    users = (workspace.owner, workspace.admin, workspace.moderator, workspace.member, workspace.other)
    # A selection of which no other test has compiled the execution.
    query = CHANNEL_EVENTS.replace("__typename", "kind: __typename")
    subscribers = [await api.subscribe(user, query, channels=[{"id": workspace.general}]) for user in users]
    for subscriber in subscribers:
        assert (await subscriber.next())["kind"] == "ChannelCaughtUp"
    async with executions.expect(2):
        await react(api, workspace.owner, sent["id"])
        shown = [(await subscriber.next())["reactions"][0]["viewerReacted"] for subscriber in subscribers]
    assert shown == [True, False, False, False, False]


async def test_reactions_that_wait_for_the_interval_cost_no_further_commands(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]
    set_interval(api, 60_000, monkeypatch)
    await react(api, bob, sent["id"])
    await published(api)
    made = Counter[str]()
    run_in_background = Cache.run_in_background

    async def count(self: Cache, calls: Sequence[Call]) -> list[Any]:
        made.update(call.name for call in calls)
        return await run_in_background(self, calls)

    monkeypatch.setattr(Cache, "run_in_background", count)
    await gather_all(*(react(api, alice, sent["id"], emoji) for emoji in ("🎉", "❤️", "😀")))
    for emoji in ("🚀", "👀", "🔥"):
        await react(api, alice, sent["id"], emoji)
    assert {name: made[name] for name in ("claim_window", "take_window", "fan_out")} == {
        "claim_window": 1,
        "take_window": 0,
        "fan_out": 0,
    }
    events = api.services.app.reaction_events
    await cancel_tasks(*events._coalesced._tasks)
    assert not events.pending
