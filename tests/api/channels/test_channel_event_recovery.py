"""Events of channels survive servers that stop in the middle, and the loss of the workspace's keys in Redis."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import PARTITIONS
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.channels.channel_subscriber import live, look_at, tell, texts
from tests.api.client import SEND, Api, message_input
from tests.api.sample_channels import SampleChannels


@pytest.mark.parametrize("step", ["before the event was appended", "before it was sent"])
async def test_an_event_of_a_server_that_stopped_is_shown_once(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    here, start = await live(api, workspace.owner, workspace.general)
    there, _ = await live(other_api, workspace.other, workspace.general)

    def fail(*_args: Any) -> Any:
        raise Unreachable("this server stops here")

    name = "message_call" if step.startswith("before the event") else "publish_message"
    with monkeypatch.context() as patched:
        patched.setattr(type(api.services.app.shared_events), name, fail)
        await api.run(workspace.member, SEND, input=message_input(workspace.general, "a"))
        await api.wait_until_idle()
    await other_api.services.housekeeper.sweep(range(PARTITIONS), 0)
    for subscriber in (here, there):
        assert await texts(subscriber, 1) == [("CREATED", "a")]
    await other_api.services.housekeeper.sweep(range(PARTITIONS), 0)
    await other_api.wait_until_idle()
    again = await look_at(api, workspace.owner, (workspace.general, start))
    assert await texts(again, 1) == [("CREATED", "a")]
    for subscriber in (here, there):
        await subscriber.expect_no_event()


async def test_rights_that_end_while_no_route_is_known_are_found_with_the_next_route(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    """The server is not asked about the change, because Redis has lost that it looks at the workspace."""
    subscriber, _ = await live(other_api, workspace.member, workspace.general)
    stays, start = await live(other_api, workspace.other, workspace.general)
    store = api.services.app.store
    for name in ("meta", "log", "recent", "changed", "routes"):
        await store.cache.one(Call("DEL", (store.keys.of_clock(workspace.id, name),)))
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    await tell(api, workspace)
    await api.send(workspace.moderator, workspace.general, "secret")
    await other_api.services.app.shared_events.hub.check_feeds()
    assert await subscriber.next() == {"__typename": "AccessEnded", "conversationId": workspace.general}
    reset = await stays.next()
    assert reset["__typename"] == "ChannelCaughtUp" and reset["reset"] and reset["rev"] > start
    await api.send(workspace.moderator, workspace.general, "more")
    assert await texts(stays, 1) == [("CREATED", "more")]
    await subscriber.expect_no_event()
