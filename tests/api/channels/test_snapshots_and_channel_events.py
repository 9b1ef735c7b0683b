"""Old snapshot + events == fresh snapshot, whatever happens to connections, frames and Redis."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from store.base.errors import Unreachable
from store.base.ids import PARTITIONS
from store.redis.cache import Call
from tests.api.channels.channel_subscriber import CHANNELS
from tests.api.client import SEND, Api, Json, Subscriber, message_input
from tests.api.sample_channels import SampleChannels

_EXAMPLES = int(os.environ.get("CONFAB_TEST_CHANNEL_EXAMPLES", "6"))

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from([0, 1])),
        st.tuples(st.sampled_from(["edit", "recall"]), st.integers(0, 5)),
        st.tuples(st.just("die"), st.sampled_from([0, 1])),
        st.tuples(st.sampled_from(["reconnect", "lose frames", "lose clock", "lose log", "read"]), st.just(0)),
    ),
    min_size=4,
    max_size=14,
)


class ChannelDevice:
    """A client that keeps a channel's messages, by what it was sent."""

    def __init__(self, servers: list[Api], workspace: SampleChannels) -> None:
        self.servers = servers
        self.workspace = workspace
        self.messages: dict[int, str | None] = {}
        self.rev: int | None = None
        self.created: set[int] = set()
        self.server = 0
        self.subscriber: Subscriber | None = None

    async def connect(self) -> None:
        """Subscribe on the next server, and read up to ChannelCaughtUp."""
        if self.subscriber is not None:
            await self.subscriber.stop()
        self.server = 1 - self.server
        position = {"id": self.workspace.general, "rev": self.rev}
        self.subscriber = await self.servers[self.server].subscribe(self.workspace.other, CHANNELS, channels=[position])
        first_time = self.rev is None
        while not await self.take():
            continue
        if first_time:
            await self.fetch()

    async def take(self) -> bool:
        """Apply the next event. Return whether it is ChannelCaughtUp."""
        assert self.subscriber is not None
        event = await self.subscriber.next()
        assert self.rev is None or event["rev"] >= self.rev or event.get("reset"), "rev went back"
        self.rev = event["rev"]
        if event["__typename"] == "ChannelCaughtUp":
            if event["reset"]:
                await self.fetch()
            return True
        seq = event["message"]["seq"]
        if event["change"] == "CREATED":
            assert seq not in self.created, "an event came twice"
            self.created.add(seq)
        self.messages[seq] = event["message"]["content"]
        return False

    async def fetch(self) -> None:
        """Read the newest page, as after a reset."""
        self.messages = await self.fresh()
        self.created.clear()

    async def fresh(self) -> dict[int, str | None]:
        history: list[Json] = await self.servers[self.server].history(self.workspace.other, self.workspace.general)
        return {message["seq"]: message["content"] for message in history}

    async def catch_up(self) -> None:
        """Take events until the messages are the fresh ones. Servers look for lost frames, as they do at intervals."""
        for server in self.servers:
            await server.wait_until_idle()
            await server.services.app.shared_events.hub.check_feeds()
        fresh = await self.fresh()
        while self.messages != fresh:
            await self.take()


@settings(
    max_examples=_EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)
@given(steps=_STEPS)
async def test_a_client_that_applies_events_has_what_a_new_client_reads(
    api: Api, other_api: Api, workspace: SampleChannels, steps: list[tuple[str, int]]
) -> None:
    servers = [api, other_api]
    device = ChannelDevice(servers, workspace)
    await device.connect()
    sent: list[str] = []
    for number, (step, choice) in enumerate(steps):
        server = servers[number % 2]
        if step == "send":
            payload = await server.send(workspace.member, workspace.general, f"text {number}")
            sent.append(payload["message"]["id"])
        elif step == "edit" and choice < len(sent):
            await server.run(
                workspace.member,
                "mutation ($id: ID!, $t: String!) { editMessage(messageId: $id, content: $t) { id } }",
                id=sent[choice],
                t=f"edit {number}",
            )
        elif step == "recall" and choice < len(sent):
            await server.recall(workspace.member, sent[choice])
        elif step == "reconnect":
            await device.connect()
        elif step == "read":
            await device.catch_up()
        elif step == "lose frames":
            await send_without_frames(server, workspace, f"unseen {number}")
        elif step == "die":
            await send_and_die(server, servers[1 - number % 2], workspace, f"recovered {number}", DEATHS[choice])
        elif step == "lose clock":
            await lose(api, workspace, "meta")
        elif step == "lose log":
            await lose(api, workspace, "log")
    await device.catch_up()
    await device.connect()
    assert device.messages == await device.fresh()
    assert device.subscriber is not None
    await device.subscriber.stop()


async def send_without_frames(server: Api, workspace: SampleChannels, text: str) -> None:
    """Send a message whose frames to other servers get lost."""
    bus = server.services.app.bus
    send_frames = bus.send_frames

    def lose_frames(kind: str, bodies: Any) -> None:
        if kind != "shared":
            send_frames(kind, bodies)

    bus.send_frames = lose_frames  # type: ignore[method-assign]
    try:
        await server.send(workspace.member, workspace.general, text)
    finally:
        bus.send_frames = send_frames  # type: ignore[method-assign]


DEATHS = ("message_call", "publish_message")
"""Steps before which a server dies: an event is appended to the clock, and sent to the servers."""


async def send_and_die(server: Api, other: Api, workspace: SampleChannels, text: str, step: str) -> None:
    """Send a message whose server dies before a step, and let another server finish the delivery."""
    events = server.services.app.shared_events

    def die(*_args: Any, **_options: Any) -> Any:
        raise Unreachable("the server died")

    setattr(events, step, die)
    try:
        await server.run(workspace.member, SEND, input=message_input(workspace.general, text))
        await server.wait_until_idle()
    finally:
        delattr(events, step)
    await other.services.housekeeper.sweep(range(PARTITIONS), 0)


async def lose(api: Api, workspace: SampleChannels, key: str) -> None:
    """Evict a key of the workspace's clock. Losses are further apart than the lead of a new epoch."""
    store = api.services.app.store
    (reading,) = await store.clocks.read([workspace.id])
    store.clock.advance_to(reading.tick + 1)
    # Many losses take longer than a lease.
    await store.deployment.worker_numbers.lease(store.ids, 0)
    await store.cache.one(Call("DEL", (store.keys.of_clock(workspace.id, key),)))
