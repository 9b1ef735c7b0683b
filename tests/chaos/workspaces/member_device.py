"""A device that has workspaces open: it follows workspaceEvents and channelEvents, and resumes both by rev."""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from websockets.exceptions import ConnectionClosed

from tests.chaos.judges.history import Json
from tests.chaos.load.connection import RETRIED, AnswerLost, LoadConnection, RequestFailed, retry_delay
from tests.chaos.load.load_state import LoadState
from tests.chaos.load.requester import FIRST_PAUSE, LONGEST_PAUSE, GaveUp, Requester
from tests.chaos.load.workspace_documents import LIVE_CHANNELS, LIVE_WORKSPACES
from tests.chaos.workspaces.channel_chain import ChannelChain
from tests.chaos.workspaces.channel_mirror import ChannelMirror
from tests.chaos.workspaces.workspace_view import WorkspaceView


class MemberDevice(Requester):
    """One device of a user, with the workspaces that the user is in, and some channels on its screen."""

    def __init__(self, load: LoadState, user: str, seed: int) -> None:
        super().__init__(load, user, f"{user}/workspaces", random.Random(seed))
        self.views: dict[str, WorkspaceView] = {}
        self.chains: dict[str, ChannelChain] = {}
        """The channels on the screen."""
        self.mirror = ChannelMirror()
        self.offline_until = 0.0
        self._ids: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._refused: set[str] = set()
        """Subscriptions that were refused, because the user can't see one of their subjects any more."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Connect, and follow all events from now on."""
        self._tasks = [asyncio.create_task(self._guarded(work())) for work in (self._follow, self._answer_questions)]

    async def stop(self) -> None:
        """Disconnect for good."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            self.load.tally.problem(f"{self.name} broke down: {traceback.format_exc()}")

    @property
    def is_unsettled(self) -> bool:
        """True while the device waits for a connection, for the end of a catch-up, or for answers."""
        return self.connection is None or self._has_questions or not all(s.caught_up for s in self._subjects())

    def describe_unsettled(self) -> str:
        """Describe what the device waits for."""
        late = [s.channel if isinstance(s, ChannelChain) else s.workspace for s in self._subjects() if not s.caught_up]
        due = [name for name, view in self.views.items() if view.snapshot_due]
        connected = "connected" if self.connection else "not connected"
        return f"{connected}, not caught up with {late}, snapshots due {due}, refused {self._refused}"

    @property
    def _has_questions(self) -> bool:
        return bool(self._refused) or any(view.snapshot_due for view in self.views.values())

    def _subjects(self) -> list[ChannelChain | WorkspaceView]:
        return [*self.views.values(), *self.chains.values()]

    # --- what is on the screen

    async def open_workspace(self, workspace: str) -> None:
        """Show a workspace from now on."""
        if workspace not in self.views:
            self.views[workspace] = WorkspaceView(workspace)
            self._changed.set()
            await self._subscribe("workspaces")

    async def look_at(self, channel: str) -> None:
        """Show a channel from now on: from a snapshot, or without one."""
        if channel in self.chains:
            return
        chain = ChannelChain(self.name, channel, self.load.tally)
        if self.rng.random() < 0.5:
            found = await self.request("channel", id=channel)
            if found is None:
                return
            chain.begin(found["rev"])
        self.chains[channel] = chain
        await self._subscribe("channels")

    async def look_away(self, channel: str) -> None:
        """Show a channel no longer."""
        if self.chains.pop(channel, None) is not None:
            await self._subscribe("channels")

    def note_follow(self, channel: Json) -> None:
        """Take the answer to followChannel."""
        for view in self.views.values():
            if channel["id"] in view.channels:
                view.counts[channel["id"]] = max(channel["messageCount"], view.counts.get(channel["id"], 0))

    # --- the connection

    async def _follow(self) -> None:
        pause = FIRST_PAUSE
        while True:
            await asyncio.sleep(max(0.0, self.offline_until - time.monotonic()))
            server = self.load.servers.pick(self.rng)
            try:
                small = self.rng.random() < 0.3
                connection = await LoadConnection.open(server, self.user, self.load.tally, small_buffer=small)
            except AnswerLost as lost:
                self.load.tally.closes[str(lost)] += 1
                await asyncio.sleep(pause * self.rng.uniform(0.5, 1.5))
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            reading = asyncio.create_task(connection.run())
            try:
                self.connection = connection
                self._ids.clear()
                for name in ("workspaces", "channels"):
                    await self._subscribe(name)
                end, reason = await asyncio.shield(reading)
            finally:
                self.connection = None
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            if end.isdigit() and int(end) not in RETRIED:
                self.load.tally.problem(f"{self.name}: closed with {end} {reason}, after which clients give up")
            self.load.tally.closes[end] += 1
            await asyncio.sleep(retry_delay(reason) or pause * self.rng.uniform(0.5, 1.5))

    async def _subscribe(self, name: str) -> None:
        """Begin a subscription, after the end of the one before."""
        connection = self.connection
        if connection is None:
            return
        subjects: dict[str, Any] = dict(self.views if name == "workspaces" else self.chains)
        document = LIVE_WORKSPACES if name == "workspaces" else LIVE_CHANNELS
        listener = self._handle_workspace if name == "workspaces" else self._handle_channel
        for subject in subjects.values():
            subject.caught_up = False
        try:
            if name in self._ids:
                await connection.unsubscribe(self._ids.pop(name))
            if subjects:
                positions = [{"id": id, "rev": subject.rev} for id, subject in subjects.items()]
                self._ids[name] = await connection.subscribe(
                    document, {name: positions}, self._receiver(name, connection, listener)
                )
        except ConnectionClosed:
            return

    def _receiver(
        self, name: str, connection: LoadConnection, listener: Callable[[Json], None]
    ) -> Callable[[Json], None]:
        def receive(payload: Json) -> None:
            if "data" in payload and payload["data"] is None:
                self.load.tally.problem(f"{self.name}: an event of {name} without data: {payload}")
            elif "data" in payload:
                (event,) = payload["data"].values()
                self.load.tally.events[event["__typename"]] += 1
                if event["__typename"] == "ChannelMessage":
                    self.load.history.note(
                        "event", device=self.name, user=self.user, subscription=name, live=False, event=event
                    )
                try:
                    listener(event)
                except Exception:
                    self.load.tally.problem(f"{self.name}: {event} could not be applied: {traceback.format_exc()}")
            elif self.connection is connection:
                self._handle_end(name, payload)

        return receive

    def _handle_end(self, name: str, payload: Json) -> None:
        error = (payload.get("errors") or [{}])[0]
        code = (error.get("extensions") or {}).get("code", "complete")
        self.load.tally.notes[f"{name}Events ended: {code}"] += 1
        self._ids.pop(name, None)
        if code not in ("complete", "UNAVAILABLE", "NOT_FOUND"):
            self.load.tally.problem(f"{self.name}: {name} was ended: {payload}")
        self._refused.add(name)
        self._changed.set()

    # --- events

    def _handle_channel(self, event: Json) -> None:
        chain = self.chains.get(event["conversationId"])
        match event["__typename"]:
            case "ChannelMessage" if chain is None:
                self.load.tally.problem(f"{self.name}: an event after the end of access: {event}")
            case "ChannelMessage" if chain is not None:
                chain.take_message(event)
            case "ChannelCaughtUp" if chain is not None:
                self.load.tally.notes["resets of channelEvents"] += event["reset"]
                chain.take_caught_up(event)
            case "AccessEnded":
                self.chains.pop(event["conversationId"], None)
            case "TypingStarted":
                if event["user"]["id"] == self.user:
                    self.load.tally.problem(f"{self.name}: the user's own typing: {event}")

    def _handle_workspace(self, event: Json) -> None:
        view = self._view_of(event)
        if view is None:
            return
        kind = event["__typename"]
        if kind == "WorkspaceCaughtUp":
            self.load.tally.notes["resets of workspaceEvents"] += event["reset"]
            view.caught_up = True
            if event["reset"]:
                view.expect_snapshot()
                self._changed.set()
            elif kind != "ChannelActivity" and view.rev is not None and event["rev"] < view.rev:
                # Activity may wait for the end of its second, and later events come before it.
                self.load.tally.problem(f"{self.name}: {view.workspace} caught up at {event['rev']}, after {view.rev}")
        elif kind != "ChannelActivity" and view.rev is not None and event["rev"] < view.rev:
            # Activity may wait for the end of its second, and later events come before it.
            self.load.tally.problem(f"{self.name}: {event} after {view.rev}")
        view.rev = event["rev"]
        if kind == "OwnMembershipChanged" and event["member"] is None:
            del self.views[view.workspace]
        elif kind in ("ChannelChanged", "ChannelGone", "ChannelActivity"):
            view.apply(event)

    def _view_of(self, event: Json) -> WorkspaceView | None:
        id = event.get("workspaceId") or (event.get("workspace") or {}).get("id")
        if id is None:
            channel = event.get("channelId") or event["channel"]["id"]
            id = f"w_{channel[2:].partition('.')[0]}"
        return self.views.get(id)

    # --- questions that events leave open

    async def _answer_questions(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                for name in sorted(self._refused):
                    await self._resubscribe(name)
                for view in [view for view in self.views.values() if view.snapshot_due]:
                    await self._take_snapshot(view)
            except (GaveUp, RequestFailed) as failed:
                self.load.tally.notes[f"a device gave up a question: {failed}"] += 1
                self._changed.set()
                await asyncio.sleep(LONGEST_PAUSE)
            if self._has_questions:
                self._changed.set()
                await asyncio.sleep(FIRST_PAUSE)

    async def _take_snapshot(self, view: WorkspaceView) -> None:
        found = await self.request("workspace", id=view.workspace)
        if found is None or found["viewer"] is None:
            if self.views.get(view.workspace) is view:
                del self.views[view.workspace]
        elif view.snapshot_due:
            view.take_snapshot(found)

    async def _resubscribe(self, name: str) -> None:
        """Leave out what the user can't see any more, and subscribe again."""
        await asyncio.sleep(self.rng.uniform(0.1, 0.5))
        if name == "channels":
            for channel in list(self.chains):
                if await self.request("channel", id=channel) is None:
                    self.chains.pop(channel, None)
        else:
            for workspace in list(self.views):
                found = await self.request("workspace", id=workspace)
                if found is None or found["viewer"] is None:
                    self.views.pop(workspace, None)
        self._refused.discard(name)
        if name not in self._ids:
            await self._subscribe(name)
