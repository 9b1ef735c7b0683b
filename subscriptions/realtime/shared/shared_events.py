"""Events on shared clocks: given their tick, sent to the servers that look at the clock, and delivered there.

An event waits until this process judges rights under the event's version. So no subscriber gets an event under rights
that have ended (ADR 56).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId, without_thread
from store.base.tasks import end_tasks
from store.base.workspace_ids import WorkspaceId, is_in_workspace, workspace_of_channel
from store.clocks.shared_clocks import Appended, ClockEntry, parse_appended
from store.messages.message import Message
from store.redis.cache import Call
from store.store import Store
from store.workspaces.policy import PendingChange, Policy
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.base import EphemeralEvent
from subscriptions.realtime.events.shared import (
    ChannelEvent,
    ChannelMessage,
    MessageChange,
    SharedEvent,
    WorkspaceUpdate,
)
from subscriptions.realtime.events.shared_registry import decode_shared_event
from subscriptions.realtime.hub import Hub
from subscriptions.realtime.mailboxes import Mailbox, QueueBudget
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.realtime.server_calls import ServerGone
from subscriptions.realtime.shared.activity import ActivityFeed
from subscriptions.realtime.shared.audience import Audience
from subscriptions.realtime.shared.channel_viewers import ChannelViewers
from subscriptions.realtime.shared.counters import SharedCounters
from subscriptions.realtime.shared.hub_clocks import HubClocks
from subscriptions.realtime.shared.replay import SharedReplayer
from subscriptions.realtime.shared.subscription import SharedSubscription
from subscriptions.realtime.shared.typing_relay import TypingRelay
from subscriptions.realtime.shared.user_clock_events import UserClockEvents

_log = structlog.get_logger()

_FRAME = "shared"
_QUESTION = "rights"
_PAUSE_SECONDS = (0.05, 1.0)
"""The first and the longest pause before rights are read again."""


class _Frame(NamedTuple):
    """An event on its clock, as it travels between servers. event: None to move the clock only."""

    owner: str
    epoch: str
    tick: int
    previous: int
    version: int
    event: SharedEvent | None


def _renamed_by(event: SharedEvent | None) -> Collection[UserId]:
    return event.renamed if isinstance(event, WorkspaceUpdate) else ()


class SharedEvents:
    """The events on shared clocks of one process: those that it causes, and those that its subscribers get."""

    def __init__(
        self, store: Store, server: str, bus: Bus, ring: ServerRing, has_blocked: Callable[[UserId, UserId], bool]
    ) -> None:
        """Create the hub of shared clocks, and listen to frames on the bus.

        has_blocked: returns whether a subscriber has blocked another user.
        """
        self._has_blocked = has_blocked
        self._store = store
        self._bus = bus
        self._audiences: dict[str, Audience] = {}
        self.user_clock_events = UserClockEvents()
        self.counters = SharedCounters()
        self._activities: dict[str, ActivityFeed] = {}
        self.viewers: dict[ConversationId, dict[Mailbox, UserId]] = {}
        """The subscriptions that look at each conversation, with their users."""
        self._early: dict[str, deque[_Frame]] = {}
        """Events by owner that wait until rights are judged under their version."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.replayer = SharedReplayer(store.clocks, store.messages, self._wait_for_rights)
        clocks = HubClocks(store.clocks, self._refresh_present)
        self.hub: Hub[str] = Hub(server, clocks, self.replayer.since, store.clock)
        bus.on_frame(_FRAME, self._receive)
        self.typing = TypingRelay(bus, ring, store.clock, self._deliver_ephemeral)
        self.channel_viewers = ChannelViewers(store.visibility, bus, ring, self._list_viewers)
        bus.on_subscribed(self.hub.resync)
        bus.calls.answer_kind(_QUESTION, self._answer)
        store.stale_caches.end_epoch = self.end_epoch

    @property
    def watched(self) -> int:
        """The number of clocks that subscriptions of this process read."""
        return len(self._audiences)

    async def close(self) -> None:
        """Stop delivering."""
        await end_tasks(self._tasks)
        await self.typing.close()
        await self.hub.close()
        self.replayer.close()

    # Causing events

    def message_call(self, message: Message, change: MessageChange, *, may_repeat: bool = False) -> Call:
        """Return the call that appends an event of a message in a channel. `publish_message` takes its answer.

        Args:
            message: The message.
            change: What happened to it.
            may_repeat: True if another server may have appended the event.
        """
        return self.append_call(ChannelMessage(message, change), may_repeat=may_repeat)

    def append_call(self, event: ChannelEvent, *, may_repeat: bool = False) -> Call:
        """Return the call that appends an event about a message. `publish_appended` takes its answer."""
        known = self._store.policies.known(WorkspaceId(event.owner))
        version = str(known.version) if known is not None else ""
        entry = ClockEntry(event.log_entry(), version, tuple(event.objects), event.conversation, may_repeat)
        return self._store.clocks.append_call(event.owner, entry)

    def publish_message(self, message: Message, change: MessageChange, answer: Any) -> None:
        """Send an event that was appended to the servers that look at its clock, after this has returned.

        `message`: as it is now. An edit that a recall has overtaken shows nothing; its tick is sent all the same.
        """
        is_overtaken = change is MessageChange.UPDATED and message.is_recalled
        event = ChannelMessage(message, change) if not is_overtaken else None
        self._publish(workspace_of_channel(message.conversation), event, parse_appended(answer))

    def publish_appended(self, event: ChannelEvent, answer: Any) -> None:
        """Send an event that was appended, with the message as it is by then: see `publish_message`."""
        self._publish(event.owner, event, parse_appended(answer))

    def publish(self, event: SharedEvent, appended: Appended) -> None:
        """Send an event that a script of the store appended, to the servers that look at its clock."""
        self._publish(event.owner, event, appended)

    async def append(self, event: SharedEvent) -> int:
        """Append an event to its clock and send it. Returns its rev. Raises StoreError: it may have been appended."""
        return (await self._append(event)).tick

    async def announce(self, update: WorkspaceUpdate) -> int:
        """Append a change of rights, and wait until no server shows events under the rights before it. Returns its rev.

        Raises StoreError: the event may have been appended, and a server may not judge under the new rights yet. Repeat
        it.
        """
        appended = await self._append(update)
        others = [server for server in appended.servers if server != self.hub.server]
        outcomes = await asyncio.gather(
            self._refresh(update.workspace, update.version),
            *(self._ask(server, update) for server in others),
            return_exceptions=True,
        )
        for failure in outcomes:
            if failure is not None:
                raise failure
        return appended.tick

    async def announce_policy(self, policy: Policy, change: PendingChange) -> None:
        """Announce a change of rights that is durable, and in Redis. See `announce`.

        If only nicknames have changed, no server is waited for.
        """
        update = WorkspaceUpdate(
            policy.workspace,
            0 if change.only_renames else policy.version,
            is_changed=change.is_changed,
            changes_rights=change.changes_rights,
            is_deleted=policy.is_deleted,
            channels=tuple(sorted(change.channels)),
            members=tuple(sorted(change.members)),
            renamed=tuple(sorted(change.renamed)),
            follows=tuple(sorted(change.follows)),
        )
        await (self.append(update) if change.only_renames else self.announce(update))

    async def end_epoch(self, owner: str) -> None:
        """Let a clock begin a new epoch: all subscriptions to it get a reset soon. Raises StoreError."""
        clocks = self._store.clocks
        await clocks.end_epoch(owner)
        self._publish(owner, None, Appended("", 0, 0, "", await clocks.list_servers(owner)))

    async def _append(self, event: SharedEvent) -> Appended:
        self._store.stale_caches.add_clock_unless_shared(WorkspaceId(event.owner))
        version = str(event.version) if isinstance(event, WorkspaceUpdate) and event.version else ""
        # A server may have died after it appended the event of a policy version.
        entry = ClockEntry(event.log_entry(), version, tuple(event.objects), may_repeat=bool(version))
        appended = await self._store.clocks.append(event.owner, entry)
        self._publish(event.owner, event, appended)
        return appended

    async def _ask(self, server: str, update: WorkspaceUpdate) -> None:
        try:
            await self._bus.calls.ask(server, {_QUESTION: [update.workspace, update.version]})
        except ServerGone:
            # If it comes back, it first reads the log of each clock, and the rights that the entries need.
            await self.hub.remove_routes([update.workspace], server)

    def _publish(self, owner: str, event: SharedEvent | None, appended: Appended) -> None:
        version = int(appended.version or 0)
        if appended.tick:
            self.counters.published["message" if isinstance(event, ChannelEvent) or event is None else "workspace"] += 1
            placed = event.at(appended.tick) if event is not None else None
            frame = _Frame(owner, *appended[:3], version, placed)
        else:
            # The server that died may have appended it without sending it: hubs compare their positions.
            frame = _Frame(owner, appended.epoch, appended.previous, appended.previous, version, None)
        others = [server for server in appended.servers if server != self.hub.server]
        if others:
            body = [*frame[:5], frame.event.encode() if frame.event is not None else None]
            self._bus.send_frames(_FRAME, dict.fromkeys(others, body))
        if len(others) < len(appended.servers) or self.hub.has_mailbox(owner):
            self._deliver(frame)

    # Delivering events

    async def subscribe(
        self, user: UserId, wanted: Mapping[str, Collection[ConversationId] | None], budget: QueueBudget
    ) -> SharedSubscription:
        """Subscribe a user to clocks. No event after the start of each mailbox is missed.

        Args:
            user: The subscriber.
            wanted: For each owner the conversations that they look at; None: all.
            budget: Bounds the events that wait.

        Raises:
            StoreError: Nothing is subscribed.
        """
        subscription = SharedSubscription(self, user)
        try:
            for owner, conversations in wanted.items():
                await subscription.add(owner, conversations, budget)
        except BaseException:
            subscription.close()
            raise
        return subscription

    def join(self, user: UserId, owner: str, conversations: Collection[ConversationId] | None) -> Audience:
        """Add a subscriber to the audience of an owner. Rights are not known before its next refresh."""
        audience = self._audiences.get(owner)
        if audience is None:
            store = self._store
            audience = self._audiences[owner] = Audience(
                WorkspaceId(owner), store.policies, store.channel_rights.members, store.clock
            )
        audience.add(user, conversations)
        return audience

    def leave(self, user: UserId, owner: str, conversations: Collection[ConversationId] | None) -> None:
        """Remove a subscriber that was added."""
        audience = self._audiences[owner]
        audience.remove(user, conversations)
        if not len(audience):
            del self._audiences[owner]

    async def watch_activity(self, owner: str) -> None:
        """Send ChannelActivity to the subscribers of a workspace, until `unwatch_activity`. Raises StoreError."""
        if owner not in self._activities:
            mailbox = await self.hub.attach(owner, QueueBudget())
            if owner in self._activities:
                self.hub.detach(mailbox)
            else:
                self._activities[owner] = ActivityFeed(mailbox, partial(self.hub.deliver_derived, owner))
        self._activities[owner].subscribers += 1

    def unwatch_activity(self, owner: str) -> None:
        """Stop sending ChannelActivity, unless another subscription needs it."""
        activity = self._activities[owner]
        activity.subscribers -= 1
        if not activity.subscribers:
            del self._activities[owner]
            activity.close()
            self.hub.detach(activity.mailbox)

    def _list_viewers(self, channel: ConversationId, user: UserId) -> Collection[UserId]:
        """Return the others who look at a channel, or at a thread in one, on this process, and see it.

        Those who have blocked the user are left out.
        """
        audience = self._audiences.get(workspace_of_channel(channel))
        viewers, seen = self.viewers.get(channel, {}).values(), without_thread(channel)
        if audience is None:
            return ()
        return dict.fromkeys(
            viewer
            for viewer in viewers
            if viewer != user and audience.find_access(viewer, seen) is not None and not self._has_blocked(viewer, user)
        )

    def _deliver_ephemeral(self, event: EphemeralEvent) -> None:
        for mailbox in tuple(self.viewers.get(event.conversation, ())):
            mailbox.put(event)

    def _receive(self, body: Sequence[Any]) -> None:
        owner, epoch, tick, previous, version, fields, *_ = body
        event = decode_shared_event(fields) if fields is not None else None
        self._deliver(_Frame(owner, epoch, tick, previous, version, event.at(tick) if event is not None else None))

    def _deliver(self, frame: _Frame) -> None:
        """Hand an event to the hub, after those that wait. It waits if rights have to be read first."""
        audience = self._audiences.get(frame.owner)
        waiting = self._early.get(frame.owner)
        renamed = _renamed_by(frame.event)
        if waiting is not None:
            waiting.append(frame)
        elif audience is None or (audience.accepts(frame.version) and not audience.has_any(renamed)):
            self._hand_to_hub(frame)
        else:
            self._early[frame.owner] = deque((frame,))
            task = asyncio.create_task(self._deliver_early(frame.owner))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver_early(self, owner: str) -> None:
        waiting = self._early[owner]
        try:
            while waiting:
                await self._wait_for_rights(owner, waiting[0].version, _renamed_by(waiting[0].event))
                self._hand_to_hub(waiting.popleft())
        finally:
            del self._early[owner]

    def _hand_to_hub(self, frame: _Frame) -> None:
        event = frame.event
        if isinstance(event, ChannelMessage) and event.conversation in self.viewers:
            self.typing.note_message(event)
        self.hub.receive(frame.event, [(frame.owner, frame.epoch, frame.tick, frame.previous)])

    async def _wait_for_rights(self, owner: str, version: int, renamed: Collection[UserId] = ()) -> None:
        """Read rights until they are judged under a version. Repeats while a database is unavailable.

        renamed: Members whose facts are read again if they subscribe, because their nickname has changed.
        """
        pause, longest = _PAUSE_SECONDS
        while True:
            try:
                await self._refresh(owner, version, renamed)
                return
            except StoreError as error:
                _log.warning("rights_not_read_yet", owner=owner, reason=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _refresh(self, owner: str, version: int, renamed: Collection[UserId] = ()) -> None:
        audience = self._audiences.get(owner)
        if audience is not None:
            for user in renamed:
                self._store.policies.forget_member(WorkspaceId(owner), user)
            await audience.refresh(version, renamed)

    async def _refresh_present(self, owner: str) -> None:
        """Read rights until they are judged under the present version."""
        if owner in self._audiences:
            version = await self._store.policies.current_version(WorkspaceId(owner))
            await self._refresh(owner, version if version is not None else self._audiences[owner].version + 1)

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer the server that changed rights, once no event is shown here under the earlier rights."""
        workspace, version = question[_QUESTION]
        await self._refresh(workspace, version)
        # The frame with the event may have been lost.
        self.hub.check_owner(workspace)
        return {}


def is_on_workspace_clock(conversation: ConversationId) -> bool:
    """Return whether the events of a conversation are on the clock of its workspace."""
    return is_in_workspace(conversation)
