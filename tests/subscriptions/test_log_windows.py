"""Windows of logs: what clients that resume get from them is what each would have read alone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from store.base.ids import ConversationId, MessageId, UserId
from store.clocks.shared_clocks import LoggedEvent, LogPage
from store.messages.message import Message, MessageKind
from subscriptions.realtime.events.base import MessagePlace
from subscriptions.realtime.events.shared import ChannelMessage, MessageChange
from subscriptions.realtime.shared import log_windows
from subscriptions.realtime.shared.log_windows import LogWindow, LogWindows

CHANNELS = [ConversationId("c_7.1"), ConversationId("c_7.2")]


class FakeClock:
    """A clock with its log, and the messages that its events are about."""

    def __init__(self) -> None:
        self.epoch = "1"
        self.tick = self.earliest = 100
        self.log: list[LoggedEvent] = []
        self.messages: dict[MessagePlace, Message] = {}
        self.reads = self.finds = 0

    def change(self, channel: ConversationId, seq: int) -> None:
        """Create a message, or edit it."""
        place = (channel, seq)
        known = self.messages.get(place)
        edits = known.edits + 1 if known is not None else 0
        self.messages[place] = Message(
            MessageId(seq), channel, UserId("ann"), MessageKind.TEXT, "text", seq, seq, edits=edits
        )
        kind = MessageChange.CREATED if known is None else MessageChange.UPDATED
        entry = ChannelMessage(self.messages[place], kind).log_entry().encode()
        self.tick += 1 + seq % 3
        self.log.append(LoggedEvent(self.tick, entry, str(self.tick), channel))

    def trim(self, count: int) -> None:
        """Drop the oldest events."""
        if self.log[:count]:
            self.earliest = self.log[:count][-1].tick
            self.log = self.log[count:]

    def lose_log(self) -> None:
        self.log, self.earliest = [], self.tick

    def lose_everything(self) -> None:
        self.lose_log()
        self.epoch += "1"
        self.tick = self.earliest = self.tick + 1_000

    async def read_log(self, _owner: str, since: int, limit: int) -> LogPage:
        self.reads += 1
        await asyncio.sleep(0)
        events = [event for event in self.log if event.tick > since][:limit]
        return LogPage(self.epoch, self.tick, self.earliest, events)

    async def find_many(self, places: Collection[MessagePlace]) -> Mapping[MessagePlace, Message]:
        self.finds += 1
        found = {place: self.messages[place] for place in places if place in self.messages}
        for _ in range(5):
            # Longer than a read of the log.
            await asyncio.sleep(0)
        return found


async def replay(window: LogWindow, clock: FakeClock, channel: ConversationId, after: int, until: int) -> list[Any]:
    found = window.find(channel, after, until)
    return [(event.rev, event.message.edits) for event in await window.replay(found, clock.find_many)]


async def run(steps: list[tuple[str, int, int]]) -> None:
    clock = FakeClock()
    windows = LogWindows(clock)  # type: ignore[arg-type]
    for step, channel, number in steps:
        name = CHANNELS[channel]
        if step == "change":
            clock.change(name, number)
        elif step == "trim":
            clock.trim(number)
        elif step == "lose log":
            clock.lose_log()
        elif step == "lose everything":
            clock.lose_everything()
        else:
            since, start = max(0, clock.tick - 3 * number), clock.tick
            epoch, expected = clock.epoch, list(clock.log)
            reading = asyncio.create_task(windows.read("w_7", epoch, since, start))
            if step == "read during a trim":
                for _ in range(4):
                    await asyncio.sleep(0)
                clock.trim(number)
            window = await reading
            assert window is not None
            if step == "read during a change":
                replaying = asyncio.create_task(replay(window, clock, name, since, start))
                await asyncio.sleep(0)
                clock.change(name, number)
                await windows.read("w_7", epoch, since, clock.tick)
                await replaying
            # Positions that the log reaches can be resumed.
            assert window.first <= max(since, clock.earliest) and start <= window.last
            after = max(since, window.first)
            shown = await replay(window, clock, name, after, start)
            logged = [event.tick for event in expected if event.tick > after and event.channel == name]
            assert [tick for tick, _ in shown if tick in logged] == logged
            assert len(set(shown)) == len(shown)
            for tick, edits in shown:
                ((place,),) = [event.entry.message_places for event in window.find(name, tick - 1, tick)]
                assert edits == clock.messages[place].edits
    windows.close()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["change"] * 6
            + ["read"] * 4
            + ["read during a change", "read during a trim", "trim", "lose log", "lose everything"]
        ),
        st.integers(0, 1),
        st.integers(1, 9),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(STEPS, st.integers(1, 4))
@example([("change", 0, 1), ("read during a change", 0, 1)], 4)
@example([*(("change", 0, number) for number in (1, 2, 3)), ("read", 0, 1), ("read", 0, 9)], 1)
@example([*(("change", 0, number) for number in (1, 2, 3, 4, 5)), ("read during a trim", 0, 4)], 1)
def test_a_shared_window_has_what_a_read_of_the_log_would_have(steps: list[tuple[str, int, int]], page: int) -> None:
    """Small pages, so that a read takes several."""
    log_windows.PAGE, before = page, log_windows.PAGE
    try:
        asyncio.run(run(steps))
    finally:
        log_windows.PAGE = before


async def test_clients_that_resume_at_the_same_time_share_the_reads() -> None:
    clock = FakeClock()
    for seq in range(1, 2_501):
        clock.change(CHANNELS[seq % 2], seq)
    windows = LogWindows(clock)  # type: ignore[arg-type]

    async def resume(number: int) -> list[ChannelMessage]:
        window = await windows.read("w_7", clock.epoch, 100 + number % 7, clock.tick)
        assert window is not None
        events = window.find(CHANNELS[0], clock.tick - 50, clock.tick)
        return await window.replay(events, clock.find_many)

    first, *others = await asyncio.gather(*map(resume, range(200)))
    assert len(first) > 10
    assert all(own is shared for each in others for own, shared in zip(each, first, strict=True))
    # Three pages, and at most one more for each client with an earlier position than all before.
    assert clock.reads <= 3 + 7 and clock.finds == 1
    windows.close()


async def test_a_window_that_is_not_used_is_dropped() -> None:
    clock = FakeClock()
    clock.change(CHANNELS[0], 1)
    windows = LogWindows(clock)  # type: ignore[arg-type]
    assert await windows.read("w_7", clock.epoch, 100, clock.tick)
    assert await windows.read("w_7", clock.epoch, 100, clock.tick)
    assert clock.reads == 1
    kept: Any = windows._kept["w_7"]
    kept.used_at -= log_windows._KEPT_SECONDS
    windows._drop_unused()
    assert not windows._kept and windows._timer is None
    windows.close()
