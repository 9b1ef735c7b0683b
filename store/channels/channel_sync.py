"""Reads what changed in a user's channels: in their sessions, and on the clocks of the workspaces."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.clocks.shared_clocks import ChangesSince, SharedClocks, parse_changes
from store.redis.cache import Cache
from store.sessions.session_store import ChannelChanges, SessionStore, parse_changed_channels

_MAX_USERS = 100_000
"""Users whose workspaces a process remembers: about 30 MB."""


class ChannelActivityRead(NamedTuple):
    """Changes of a user's sessions in channels, and of the workspaces in which the user follows channels."""

    own: ChannelChanges
    workspaces: dict[WorkspaceId, ChangesSince]


class ChannelSync:
    """Reads both in one round trip for users whose workspaces this process remembers, else in two."""

    def __init__(self, cache: Cache, sessions: SessionStore, clocks: SharedClocks) -> None:
        self._cache = cache
        self._sessions = sessions
        self._clocks = clocks
        self._workspaces: OrderedDict[UserId, frozenset[WorkspaceId]] = OrderedDict()

    async def read(self, user: UserId, after: int, limit: int, since_ms: int) -> ChannelActivityRead:
        """Return the changes after a position on the user's clock, and after a time on those of the workspaces."""
        remembered = sorted(self._workspaces.get(user, ()))
        own_answer, *answers = await self._cache.run(
            [
                self._sessions.changed_channels_call(user, after, limit),
                *(self._clocks.changes_call(workspace, since_ms, user) for workspace in remembered),
            ]
        )
        found = dict(zip(remembered, map(parse_changes, answers), strict=True))
        own = parse_changed_channels(user, own_answer)
        if own is None:
            own = await self._sessions.list_changed_channels(user, after, limit)
        wanted = frozenset(map(workspace_of_channel, own.followed))
        missing = sorted(wanted - found.keys())
        if missing:
            read = await self._clocks.read_changes(dict.fromkeys(missing, since_ms), user)
            found |= {workspace: read[workspace] for workspace in missing}
        self._workspaces[user] = wanted
        self._workspaces.move_to_end(user)
        if len(self._workspaces) > _MAX_USERS:
            self._workspaces.popitem(last=False)
        return ChannelActivityRead(own, {workspace: found[workspace] for workspace in wanted})
