"""Turns of writers, and slow peers, on a socket whose peer reads as the test decides."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from subscriptions.realtime.mailboxes import Lagged, Mailbox, MailboxEvent, Position, QueueBudget
from subscriptions.realtime.unsent_answers import UnsentAnswers
from subscriptions.transport.engine import AnswerRefused
from subscriptions.transport.frame_writer import SOCKET_EXTENSION, FrameWriter
from subscriptions.transport.host import TransportLimits
from subscriptions.transport.joined_writes import JoinedWrites
from subscriptions.transport.server_frames import text_frame
from tests.waiting import wait_for

SOON = 0.1
LATER = 60.0


class PeersSocket:
    """A stand-in for uvicorn's protocol. The test plays the peer with `fall_behind` and `take`."""

    is_open = True
    is_aborted = False

    def __init__(self) -> None:
        self.buffered_bytes = 0
        self.written: list[bytes] = []
        self.scope = {"extensions": {SOCKET_EXTENSION: self}}
        self.set_writable: Callable[[bool], None] = lambda writable: None

    def on_writable_change(self, call: Callable[[bool], None]) -> None:
        self.set_writable = call

    def write(self, frames: bytes) -> None:
        self.written.append(frames)

    def abort(self) -> None:
        self.is_aborted = True

    def fall_behind(self, waiting: int) -> None:
        self.buffered_bytes = waiting
        self.set_writable(False)

    def take(self) -> None:
        self.buffered_bytes = 0
        self.set_writable(True)


class Written:
    """A writer on such a socket. It counts how often it found the peer stalled."""

    def __init__(
        self, unsent: UnsentAnswers | None = None, min_bytes_per_second: int = 0, send_timeout_seconds: float = LATER
    ) -> None:
        self.socket = PeersSocket()
        self.stalls = 0
        limits = TransportLimits(
            send_timeout_seconds=send_timeout_seconds,
            sync_timeout_seconds=LATER,
            min_bytes_per_second=min_bytes_per_second,
        )
        self.writer = FrameWriter(
            cast(Any, self.socket), QueueBudget(), limits, self._stalled, JoinedWrites(), unsent or UnsentAnswers()
        )

    def _stalled(self) -> None:
        self.stalls += 1

    def end_send_timeout(self) -> None:
        """Check for a stall, as the timer of the writer does after the timeout."""
        timer = self.writer._stall_timer
        assert timer is not None
        timer.cancel()
        self.writer._check_for_stall()


@pytest.fixture
async def written() -> Written:
    return Written()


async def test_a_peer_that_took_all_queued_data_is_not_stalled(written: Written) -> None:
    written.socket.fall_behind(70_000)
    for _ in range(3):
        written.socket.take()
        written.socket.fall_behind(300_000)
        written.end_send_timeout()
    assert written.stalls == 0
    written.end_send_timeout()
    assert written.stalls == 1


async def test_a_peer_that_takes_nothing_is_stalled_after_the_timeout() -> None:
    written = Written(send_timeout_seconds=SOON)
    began = asyncio.get_running_loop().time()
    written.socket.fall_behind(70_000)
    await wait_for(lambda: written.stalls > 1)
    assert asyncio.get_running_loop().time() - began >= 2 * SOON - 0.01


async def test_an_abandoned_write_does_not_count_against_a_slow_peer(written: Written) -> None:
    written.socket.fall_behind(70_000)
    for _ in range(10):
        waiting = asyncio.create_task(written.writer.write("given up"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    still = asyncio.create_task(written.writer.write("wanted"))
    await asyncio.sleep(0)
    assert len(written.writer._waiting_calls) == 1
    written.socket.take()
    await still
    assert written.socket.written == [text_frame(b"wanted")]


async def test_repeated_resets_do_not_restart_the_deadline_of_a_slow_peer() -> None:
    budget, ticks = QueueBudget(2), itertools.count(1)
    mailbox = Mailbox("somebody", Position("e", 0), budget)

    def put(count: int) -> None:
        for _ in range(count):
            mailbox.put(MailboxEvent(Position("e", next(ticks)), cast(Any, None)))

    put(4)
    since = budget.behind_since
    assert since is not None
    await asyncio.sleep(0.005)
    for _ in range(3):
        # It reads more slowly than the server writes.
        assert isinstance(mailbox.take(), Lagged)
        put(3)
        assert budget.behind_since == since
    while mailbox.take() is not None:
        pass
    assert (budget.used, budget.behind_since) == (0, None)
    put(1)
    mailbox.put(Lagged(Position("e", next(ticks)), "somebody"))
    assert (budget.used, budget.behind_since) == (0, None)


async def test_frames_of_one_turn_are_written_together_and_in_order(written: Written) -> None:
    for frame in (b"a", b"b", b"c"):
        written.writer.write_soon(frame)
    assert written.socket.written == []
    await asyncio.sleep(0)
    written.writer.write_soon(b"d")
    await asyncio.sleep(0)
    assert written.socket.written == [b"abc", b"d"]


async def test_an_answer_does_not_overtake_collected_frames(written: Written) -> None:
    written.writer.write_soon(b"event")
    await written.writer.write("answer")
    await asyncio.sleep(0)
    assert written.socket.written == [b"event", text_frame(b"answer")]


async def test_many_collected_bytes_are_written_without_waiting(written: Written) -> None:
    written.writer.write_soon(b"a")
    written.writer.write_soon(bytes(40_000))
    assert len(b"".join(written.socket.written)) == 40_001
    written.writer.write_soon(b"b")
    await asyncio.sleep(0)
    assert written.socket.written[1:] == [b"b"]


async def test_collected_frames_of_a_socket_that_closed_are_discarded(written: Written) -> None:
    written.writer.write_soon(b"a")
    written.socket.is_open = False
    await asyncio.sleep(0)
    assert written.socket.written == []


async def test_writes_to_many_connections_let_other_tasks_run_and_outlive_a_failure() -> None:
    joined, done = JoinedWrites(), list[int]()

    def write(number: int) -> None:
        done.append(number)
        assert number != 1, "the write that fails"

    for number in range(600):
        joined.add(partial(write, number))
    turns = 0
    while len(done) < 600:
        await asyncio.sleep(0)
        turns += 1
    assert done == list(range(600))
    assert 1 < turns <= 4


async def test_frames_that_wait_for_a_slow_peer_are_counted_and_bounded() -> None:
    unsent = UnsentAnswers(300_000)
    written = Written(unsent)
    written.writer.user = "alice"
    written.socket.fall_behind(70_000)
    assert unsent.total == 70_000
    waiting = asyncio.create_task(written.writer.write(b"x" * 200_000))
    await asyncio.sleep(0)
    assert unsent.total == 270_000
    with pytest.raises(AnswerRefused):
        await written.writer.write(b"x" * 200_000)
    small = asyncio.create_task(written.writer.write(b"small"))
    await asyncio.sleep(0)
    written.socket.take()
    await asyncio.gather(waiting, small)
    assert unsent.total == 0
    assert [len(frames) > 200_000 for frames in written.socket.written] == [True, False]


async def test_a_peer_is_dropped_if_too_many_bytes_of_its_user_wait() -> None:
    unsent = UnsentAnswers(100_000)
    first, second = Written(unsent), Written(unsent)
    first.writer.user = second.writer.user = "alice"
    first.socket.fall_behind(70_000)
    second.socket.fall_behind(70_000)
    assert (first.stalls, first.socket.is_aborted, second.socket.is_aborted) == (1, True, False)
    second.socket.take()
    assert unsent.total == 0


async def test_a_peer_below_the_minimum_rate_is_stalled() -> None:
    slow, fast = (Written(min_bytes_per_second=1_000) for _ in range(2))
    for each in (slow, fast):
        each.socket.fall_behind(300_000)
    slow.socket.buffered_bytes -= round(LATER) * 1_000 - 1
    fast.socket.buffered_bytes -= round(LATER) * 1_000
    for each in (slow, fast):
        each.end_send_timeout()
    assert (slow.stalls, fast.stalls) == (1, 0)
