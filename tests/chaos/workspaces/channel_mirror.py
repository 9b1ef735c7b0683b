"""A copy of a user's followed channels that is kept by syncChannels alone, without any live event."""

from __future__ import annotations

from tests.chaos.judges.history import Json
from tests.chaos.load.requester import Requester

COMPARED = ("messageCount", "viewerFollows", "session")


class ChannelMirror:
    """The followed channels that one device knows from syncChannels since its last cursor."""

    def __init__(self) -> None:
        self._channels: dict[str, Json] = {}
        self._cursor: str | None = None

    async def catch_up(self, requester: Requester, page: int = 100) -> None:
        """Fetch everything that changed since the last time, in pages of that size."""
        has_more = True
        while has_more:
            delta = await requester.request("syncChannels", since=self._cursor, first=page)
            if delta["reset"]:
                requester.load.tally.notes["resets of syncChannels"] += 1
                self._channels.clear()
            if len(delta["channels"]) + len(delta["gone"]) > page:
                requester.load.tally.problem(f"{requester.name}: a page of syncChannels is too long: {delta}")
            self._channels |= {channel["id"]: channel for channel in delta["channels"]}
            for gone in delta["gone"]:
                self._channels.pop(gone, None)
            self._cursor, has_more = delta["cursor"], delta["hasMore"]

    def differences(self, fresh: dict[str, Json]) -> list[str]:
        """Compare the copy with the channels that followedChannels shows."""
        wrong = [
            f"by syncChannels, {id}: known {id in self._channels}, followed {id in fresh}"
            for id in self._channels.keys() ^ fresh.keys()
        ]
        for id in self._channels.keys() & fresh.keys():
            copy = self._channels[id]
            different = {f: (copy[f], fresh[id][f]) for f in COMPARED if copy[f] != fresh[id][f]}
            if different:
                wrong.append(f"by syncChannels, {id}: copy and server differ: {different}")
        return wrong
