"""A device's copy of one workspace: a snapshot, then the events of workspaceEvents applied naively."""

from __future__ import annotations

from tests.chaos.judges.history import Json

SETTINGS = ("name", "topic", "kind", "isArchived")


class WorkspaceView:
    """The channels of a workspace that the device's user can see."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self.rev: int | None = None
        """The position from which the device resumes."""
        self.caught_up = False
        self.snapshot_due = True
        self.channels: dict[str, Json] = {}
        self.counts: dict[str, int] = {}
        """messageCount of each channel, as far as the device knows it."""
        self._revs: dict[str, int] = {}
        self._waiting: list[Json] = []

    def expect_snapshot(self) -> None:
        """Keep events until the snapshot has come."""
        self.snapshot_due = True
        self._waiting.clear()

    def take_snapshot(self, workspace: Json) -> None:
        """Replace everything by a snapshot, then apply the later events that came meanwhile."""
        self.channels = {edge["node"]["id"]: edge["node"] for edge in workspace["channels"]["edges"]}
        self.counts = {id: channel["messageCount"] for id, channel in self.channels.items()}
        rev: int = workspace["rev"]
        self._revs = dict.fromkeys(self.channels, rev)
        self.snapshot_due = False
        if self.rev is None:
            self.rev = workspace["rev"]
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            if event["rev"] > workspace["rev"]:
                self.apply(event)

    def apply(self, event: Json) -> None:
        """Apply an event about a channel: it has the whole object."""
        if self.snapshot_due:
            self._waiting.append(event)
            return
        match event["__typename"]:
            case "ChannelChanged":
                channel = event["channel"]
                if event["rev"] >= self._revs.get(channel["id"], 0):
                    self.channels[channel["id"]] = channel
                    self._revs[channel["id"]] = event["rev"]
                self._count(channel["id"], channel["messageCount"])
            case "ChannelGone":
                if event["rev"] >= self._revs.get(event["channelId"], 0):
                    self.channels.pop(event["channelId"], None)
                    self._revs[event["channelId"]] = event["rev"]
            case "ChannelActivity":
                self._count(event["channelId"], event["messageCount"])

    def _count(self, channel: str, count: int) -> None:
        self.counts[channel] = max(count, self.counts.get(channel, 0))

    def differences(self, fresh: Json, followed: set[str]) -> list[str]:
        """Compare the copy with what a fresh client is shown. followed: the channels whose activity comes."""
        shown = {edge["node"]["id"]: edge["node"] for edge in fresh["channels"]["edges"]}
        wrong = [
            f"{id} {'is not visible' if id in self.channels else 'is missing'}"
            for id in shown.keys() ^ self.channels.keys()
        ]
        for id in shown.keys() & self.channels.keys():
            different = {
                field: (self.channels[id][field], shown[id][field])
                for field in SETTINGS
                if self.channels[id][field] != shown[id][field]
            }
            if id in followed and self.counts[id] != shown[id]["messageCount"]:
                different["messageCount"] = (self.counts[id], shown[id]["messageCount"])
            if different:
                wrong.append(f"{id}: copy and server differ: {different}")
        return wrong
