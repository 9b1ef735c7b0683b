"""Delivers reserved messages: group commit, fan-out, publishing; each stage batches what waits meanwhile.

A message is answered once it is durable and its sender and the first members see it; the rest of a large group follows in
a lane of its own, so that nobody else waits for it. Until all is done the message stays in the outbox: if this process
dies, another repeats from the commit, and every step is idempotent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog

from store.base.errors import NotAttempted, StoreError, Superseded, Unreachable
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.messages.idempotency_claims import Claim
from store.messages.message import CommittedMessage, Message, ReservedMessage
from store.messages.outbox_store import Refusal
from store.redis.cache import Call
from store.redis.request_scope import RequestScope, discard_request_cache
from store.sessions.apply_messages import FanoutResult
from store.sessions.apply_results import NOT_CACHED, ApplyResult, parse_result
from store.sessions.changes import INVALIDATE
from store.store import Store
from subscriptions.delivery.batch_window import BatchWindow
from subscriptions.delivery.commit_timestamps import CommitTimestamps
from subscriptions.delivery.fanout_batch import FanoutBatch
from subscriptions.delivery.in_flight_messages import InFlightMessage, Sent, shown_order
from subscriptions.delivery.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.recipients import RecipientSlice, membership_updates, recipients_of, slice_recipients
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.outgoing_events import OutgoingEvents

_log = structlog.get_logger()

T = TypeVar("T")

BATCH = 500
"""Messages that share one write at most."""

FIRST_MEMBERS = 200
"""Members who see a message before its sender is answered, the sender included."""

_LANE_MEMBERS, _LANE_MESSAGES = 500, 32
_COMMIT_SECONDS = 15.0
_SLOW_SECONDS = 1.0
_RETRY_SECONDS = (0.05, 1.0)
_NO_ENTRY = "0-0"


class MessageDelivery:
    """The write path of one process. `open` before use; `close` finishes what is under way. `coming`: what gets a place now."""

    def __init__(self, store: Store, bus: Bus, receipts: ReceiptNotifier) -> None:
        self._store = store
        self._bus = bus
        self._receipts = receipts
        self._waiting: deque[InFlightMessage] = deque()
        self._durable: deque[InFlightMessage] = deque()
        self._lane: deque[InFlightMessage] = deque()
        self._wakeups = {name: asyncio.Event() for name in ("commit", "show", "lane")}
        self._under_way: dict[int, InFlightMessage] = {}
        self.coming = BatchWindow()
        self._stamps = CommitTimestamps(store.clock)
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._side: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Starts the stages."""
        stages = (self._commit_stage(), self._show_stage(), self._lane_stage())
        self._tasks = [asyncio.create_task(stage) for stage in stages]

    async def close(self) -> None:
        """Waits a few seconds for what is under way, then stops. What is left stays in the outbox for others."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 5
        # An event would cost every message something, for the sake of stopping.
        while self._under_way and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self._closed = True
        await end_tasks([*self._tasks, *self._side])
        for parcelled in self._under_way.values():
            if not parcelled.done.done():
                parcelled.done.set_exception(Unreachable("the server is stopping"))
                parcelled.done.exception()

    async def send(self, reserved: ReservedMessage, *, recovered: bool = False) -> Sent:
        """Makes a reserved message durable and visible. Raises Unreachable when that can't be confirmed in time: the message
        is then delivered later, or has been. A caller that is cancelled does not stop it."""
        if self._closed:
            raise Unreachable("the server is stopping")
        parcelled = self._under_way.get(reserved.message.id)
        if parcelled is None:
            parcelled = InFlightMessage(reserved, asyncio.get_running_loop().create_future(), recovered)
            self._under_way[reserved.message.id] = parcelled
            self._push("commit", self._waiting, [parcelled])
        try:
            return await asyncio.shield(parcelled.done)
        finally:
            discard_request_cache()

    async def show_stored(self, message: Message) -> Sent:
        """Shows a message that is stored, as one that is taken over from a server that died: what of it was done is not done again.
        Its own entry of the outbox, if there is one, is left to who sweeps. Raises Unreachable."""
        return await self.send(ReservedMessage(message, membership_version="", outbox_entry=_NO_ENTRY), recovered=True)

    @property
    def depths(self) -> tuple[int, int, int, int]:
        """Messages waiting to be committed, to be shown, to reach the rest of large groups; and all that are under way."""
        return len(self._waiting), len(self._durable), len(self._lane), len(self._under_way)

    def find(self, message: int) -> asyncio.Future[Sent] | None:
        """The outcome of a message that is under way on this process."""
        parcelled = self._under_way.get(message)
        return parcelled.done if parcelled else None

    def _push(self, stage: str, queue: deque[InFlightMessage], items: Sequence[InFlightMessage]) -> None:
        queue.extend(items)
        self._wakeups[stage].set()

    async def _take(self, stage: str, queue: deque[InFlightMessage], most: int) -> list[InFlightMessage]:
        while not queue:
            self._wakeups[stage].clear()
            await self._wakeups[stage].wait()
        return [queue.popleft() for _ in range(min(most, len(queue)))]

    async def _commit_stage(self) -> None:
        """One batch after the other; but one that MongoDB keeps waiting (a row of it is locked) does not hold up those behind it."""
        while True:
            batch = await self._take("commit", self._waiting, BATCH)
            await self.coming.wait()
            batch += [self._waiting.popleft() for _ in range(min(BATCH - len(batch), len(self._waiting)))]
            await asyncio.wait({self._aside(self._commit(batch))}, timeout=_SLOW_SECONDS)

    async def _commit(self, batch: list[InFlightMessage]) -> None:
        """One write for all that wait; a change of a group is a transaction of its own, which others don't wait for."""
        for parcelled in batch:
            if parcelled.reserved.change is not None:
                self._aside(self._commit_change(parcelled))
        messages = [parcelled for parcelled in batch if parcelled.reserved.change is None]
        if messages:
            await self._commit_messages(messages)

    async def _commit_messages(self, batch: list[InFlightMessage]) -> None:
        # So that what is stored together is stamped, and then shown, in the order it is read in.
        batch.sort(key=lambda parcelled: parcelled.reserved.message.seq)
        by_id = {parcelled.reserved.message.id: parcelled for parcelled in batch}
        store = self._store
        # Stored before by whom it was taken over from, or given places by a Redis that knew less.
        careful = store.deployment.may_redis_lag or any(parcelled.recovered for parcelled in batch)

        async def attempt(again: bool) -> tuple[list[CommittedMessage], list[ReservedMessage]]:
            reserved = [parcelled.reserved for parcelled in batch]
            return await store.commits.commit(reserved, self._stamps.take(len(batch)), messages_first=careful or again)

        try:
            done = await self._until_confirmed(batch, attempt)
        except Exception as error:
            if len(batch) == 1:
                _log.exception("a message could not be stored", message=batch[0].reserved.message.id)
                self._give_up(batch[0], Unreachable(str(error)))
                return
            # One that can't be stored must not take the others with it.
            for parcelled in batch:
                await self._commit_messages([parcelled])
            return
        durable, again = done or ((), ())
        ready = []
        for committed in durable:
            parcelled = by_id[committed.reserved.message.id]
            parcelled.reserved, parcelled.committed = committed.reserved, committed
            ready.append(parcelled)
        self._push("show", self._durable, ready)
        for reserved in again:
            self._aside(self._place_again(by_id[reserved.message.id]))

    async def _commit_change(self, parcelled: InFlightMessage) -> None:
        store, reserved = self._store, parcelled.reserved
        (stamp,) = self._stamps.take(1)

        async def attempt(_again: bool) -> tuple[int | None]:
            return (await store.groups.commit(reserved, stamp),)

        try:
            done = await self._until_confirmed([parcelled], attempt)
            if done is None:
                return
            (at_ms,) = done
            if at_ms is not None:
                parcelled.committed = CommittedMessage(reserved, at_ms)
                self._push("show", self._durable, [parcelled])
                return
            # Redis was behind: what it was decided on is not so. Whoever asked decides anew on what is.
            await store.cache.run([store.outbox.clear_call(reserved)])
            await store.conversations.drop(reserved.message.conversation)
            self._give_up(parcelled, Superseded("the group was changed meanwhile"))
        except Exception as error:
            if not isinstance(error, StoreError):
                _log.exception("a group could not be changed", group=reserved.message.conversation)
            self._give_up(parcelled, Unreachable(str(error)))

    async def _until_confirmed(
        self, batch: Sequence[InFlightMessage], attempt: Callable[[bool], Awaitable[T]]
    ) -> T | None:
        """Tried again until the deadline: MongoDB may be electing a primary. None where all of the batch were given up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _COMMIT_SECONDS
        pause, longest = _RETRY_SECONDS
        again = False
        while True:
            try:
                return await attempt(again)
            except StoreError as error:
                if isinstance(error, NotAttempted) or loop.time() + pause > deadline:
                    for parcelled in batch:
                        self._give_up(parcelled, error)
                    return None
                _log.warning("a batch of messages is not confirmed yet", messages=len(batch), reason=str(error))
                again = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)

    def _give_up(self, parcelled: InFlightMessage, error: StoreError) -> None:
        """Tells the sender that the outcome is unknown. The message stays in the outbox."""
        self._under_way.pop(parcelled.reserved.message.id, None)
        if not parcelled.done.done():
            known = isinstance(error, Unreachable | Superseded)
            parcelled.done.set_exception(error if known else Unreachable(str(error)))
            parcelled.done.exception()

    async def _place_again(self, parcelled: InFlightMessage) -> None:
        """MongoDB holds another message at this one's place: Redis was behind. Take the next place there really is."""
        store, old = self._store, parcelled.reserved
        conversation = old.message.conversation
        try:
            with RequestScope():
                await store.conversations.drop(conversation, old.message.seq)
                await store.conversations.load((conversation,), with_members=True)
                place = await store.outbox.reserve(old.message.with_place(0, 0), replaces_taken_place=True)
            if isinstance(place, Refusal):
                if place is not Refusal.NOT_LOADED:
                    # Its group has ended: nobody is to try any further.
                    await store.cache.one(store.outbox.clear_call(old))
                raise Unreachable(f"no place for a message: {place.value}")
            await store.cache.one(store.outbox.clear_call(old))
        except Exception as error:
            if not isinstance(error, StoreError):
                _log.exception("a message could not be placed again", message=old.message.id)
            self._give_up(parcelled, Unreachable(str(error)))
            return
        _log.info("a message got another place", conversation=conversation, was=old.message.seq, seq=place.message.seq)
        parcelled.reserved = place
        self._push("commit", self._waiting, [parcelled])

    async def _show_stage(self) -> None:
        while True:
            batch = await self._take("show", self._durable, BATCH)
            try:
                self._store.cache.require_shared()
                await self._show(batch)
            except Exception as error:
                # They are durable: their senders are told so, and the rest is done once Redis answers.
                if not isinstance(error, StoreError):
                    _log.exception("messages could not be shown")
                for parcelled in batch:
                    self._finish(parcelled, NOT_CACHED)
                    self._leave(parcelled)

    async def _show(self, batch: list[InFlightMessage]) -> None:
        """Heads, then senders and first members of all messages of the batch, in order: one round trip."""
        store = self._store
        batch.sort(key=shown_order)
        calls: list[Call] = []
        heads, parts = [], []
        for parcelled in batch:
            committed = parcelled.committed
            assert committed is not None
            message = committed.reserved.message
            heads.append(len(calls))
            calls.append(store.commits.newest_message_call(committed))
            if message.key and message.digest:
                claim = Claim(message.id, message.conversation, message.digest, message.seq)
                calls.append(store.claims.settle_call(message.sender, message.key, claim))
            parcelled.event = MessageCreated(message)
            first, parcelled.rest = await recipients_of(store, committed, FIRST_MEMBERS)
            parts.append(slice_recipients(committed, first, membership_updates(committed)))
        shown = FanoutBatch(store, parts)
        answers = await store.cache.run([*calls, *shown.calls])
        # 0: its head is not in the cache, and doesn't tell.
        overtaken = [p for p, head in zip(batch, heads, strict=True) if answers[head] != p.reserved.message.seq]
        await self._doubt(overtaken)
        parcel = OutgoingEvents()
        for parcelled, part, outcome in zip(batch, parts, shown.read(answers[len(calls) :]), strict=True):
            sender = self._post(parcel, parcelled, part, *outcome)
            self._receipts.sent(parcelled.reserved, sender)
            self._finish(parcelled, sender)
        done = [parcelled for parcelled in batch if not parcelled.rest]
        self._push("lane", self._lane, [parcelled for parcelled in batch if parcelled.rest])
        self._publish(parcel, done)

    async def _doubt(self, overtaken: Sequence[InFlightMessage]) -> None:
        """Has the states of those loaded anew whom messages made members that were overtaken: what came after was shown before
        they had a session to see it in."""
        changes = [parcelled.reserved.change for parcelled in overtaken]
        users = [user for change in changes if change is not None for user in change.joined]
        if users:
            await self._store.cache.run([self._store.sessions.apply(user, INVALIDATE) for user in users])

    async def _lane_stage(self) -> None:
        """The members of large groups beyond the first, a slice at a time. What waits for one group goes to them together."""
        while True:
            (first,) = await self._take("lane", self._lane, 1)
            conversation = first.reserved.message.conversation
            behind = [p for p in self._lane if p.reserved.message.conversation == conversation][: _LANE_MESSAGES - 1]
            for parcelled in behind:
                self._lane.remove(parcelled)
            burst = [first, *behind]
            try:
                while any(parcelled.rest for parcelled in burst):
                    await self._show_rest([parcelled for parcelled in burst if parcelled.rest])
            except Exception as error:
                if not isinstance(error, StoreError):
                    _log.exception("messages did not reach all members")
                for parcelled in burst:
                    self._leave(parcelled)

    async def _show_rest(self, burst: Sequence[InFlightMessage]) -> None:
        """The next members of the first, and the same people of the others, who list them in another order: nobody is shown a
        message before one that was there before it."""
        first, parts = burst[0].rest[:_LANE_MEMBERS], []
        chosen = frozenset(first)
        for parcelled in burst:
            assert parcelled.committed is not None
            members, rest = parcelled.rest[:_LANE_MEMBERS], parcelled.rest[_LANE_MEMBERS:]
            if members != first:
                members = [user for user in parcelled.rest if user in chosen]
                rest = [user for user in parcelled.rest if user not in chosen]
            parcelled.rest = rest
            parts.append(slice_recipients(parcelled.committed, members))
        shown = FanoutBatch(self._store, parts)
        answers = await self._store.cache.run_in_background(shown.calls)
        parcel = OutgoingEvents()
        for parcelled, part, outcome in zip(burst, parts, shown.read(answers), strict=True):
            self._post(parcel, parcelled, part, *outcome)
        self._publish(parcel, [parcelled for parcelled in burst if not parcelled.rest])

    # --- what the stages share

    def _post(
        self,
        parcel: OutgoingEvents,
        parcelled: InFlightMessage,
        part: RecipientSlice,
        answers: Sequence[Any],
        shown: FanoutResult,
    ) -> ApplyResult:
        """Addresses what happened to users to their devices. Answers what happened to the sender by the message."""
        at_ms = part.committed.at_ms
        outcomes: list[tuple[UserId, ApplyResult]] = []
        for effect, answer in zip(part.effects, answers, strict=True):
            outcome = parse_result(effect.user, answer)
            outcomes.append((effect.user, outcome))
            changed = effect.session_event(outcome)
            parcel.add(changed, [(effect.user, outcome)], stored_at=at_ms, has_own_write_ts=not effect.ends_group)
        assert parcelled.event is not None
        parcel.add_message(parcelled.event, shown, at_ms)
        outcomes += shown.others
        sender = next((o for user, o in shown.others if user == parcelled.reserved.message.sender), NOT_CACHED)
        if parcelled.recovered:
            # Whoever died may have applied the message and not told: let those who listen look at their clocks.
            parcel.add_positions([pair for pair in outcomes if not pair[1].changed])
        return sender

    def _publish(self, parcel: OutgoingEvents, done: Sequence[InFlightMessage]) -> None:
        for parcelled in done:
            self._under_way.pop(parcelled.reserved.message.id, None)
        self._bus.send(parcel, [self._store.outbox.clear_call(parcelled.reserved) for parcelled in done])

    def _leave(self, parcelled: InFlightMessage) -> None:
        """Leave a durable message to the outbox, or to the stale caches if the outbox was lost."""
        self._under_way.pop(parcelled.reserved.message.id, None)
        self._store.stale_caches.add_conversation(parcelled.reserved.message.conversation)

    def _finish(self, parcelled: InFlightMessage, sender: ApplyResult) -> None:
        if not parcelled.done.done():
            parcelled.done.set_result(Sent(parcelled.reserved.message, sender))

    def _aside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)
        return task
