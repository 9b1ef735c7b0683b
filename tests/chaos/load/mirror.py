"""A copy of a user's sessions that is kept by syncSessions alone, without any live event."""

from __future__ import annotations

from tests.chaos.judges.history import Json
from tests.chaos.load.requester import Requester


class Mirror:
    """The sessions that one device knows from syncSessions since its last cursor."""

    def __init__(self) -> None:
        self._sessions: dict[str, Json] = {}
        self._cursor: str | None = None

    async def catch_up(self, requester: Requester, page: int = 100) -> None:
        """Fetch everything that changed since the last time, in pages of that size."""
        changed, last = await requester.read_sessions(self._cursor, page)
        if last["reset"]:
            self._sessions.clear()
        order = [session["activeTs"] for session in changed]
        if not last["reset"] and order != sorted(order):
            requester.load.tally.problem(f"{requester.name}: syncSessions is out of order: {order}")
        self._sessions |= {session["conversation"]["id"]: session for session in changed}
        self._cursor = last["cursor"]

    def differences(self, fresh: dict[str, Json]) -> list[str]:
        """Compare the copy with the valid sessions that a client without state is shown."""
        mine = {name: session for name, session in self._sessions.items() if session["status"] == "ACTIVE"}
        wrong = [f"by syncSessions, {name}: known {name in mine}" for name in mine.keys() ^ fresh.keys()]
        for name in mine.keys() & fresh.keys():
            different = {
                field: (mine[name][field], value) for field, value in fresh[name].items() if mine[name][field] != value
            }
            if different:
                wrong.append(f"by syncSessions, {name}: copy and server differ: {different}")
        return wrong
