"""The members of workspaces who are shown online: in Redis, a sorted set for each workspace and server (ADR 80).

Each server writes its own sets, so they end with it: readers name the servers that are alive. A user with devices on
several servers is in several sets. All scores are 0, so a set is in the order of the ids.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

KEPT_MS = 7_200_000
"""A set that is not extended for this time expires. Its server extends it four times as often."""

_MOST_COMPARED = 5_000
"""Largest number of members for which a count is exact."""

_SAMPLE = 500
"""Members of each set that are compared in larger workspaces. An estimate is wrong by a few percent at most."""


class OnlineMembers:
    """Reads and changes the sets."""

    def __init__(self, cache: Cache, keys: Keys) -> None:
        self._cache = cache
        self._keys = keys

    async def change(
        self,
        server: str,
        added: Mapping[WorkspaceId, Collection[UserId]],
        removed: Mapping[WorkspaceId, Collection[UserId]],
    ) -> None:
        """Add members to a server's sets, and remove others: one round trip. Raises Unreachable."""
        calls = []
        for workspace, users in removed.items():
            calls.append(Call("ZREM", (self._key(workspace, server),), tuple(users)))
        for workspace, users in added.items():
            scores = [word for user in users for word in (0, user)]
            calls.append(Call("ZADD", (self._key(workspace, server),), tuple(scores)))
            calls.append(Call("PEXPIRE", (self._key(workspace, server),), (KEPT_MS,)))
        await self._cache.run_in_background(calls)

    async def extend(self, server: str, workspaces: Sequence[WorkspaceId]) -> list[WorkspaceId]:
        """Extend the time of a server's sets. Return those that Redis does not have: one round trip."""
        calls = [Call("PEXPIRE", (self._key(workspace, server),), (KEPT_MS,)) for workspace in workspaces]
        found = await self._cache.run_in_background(calls)
        return [workspace for workspace, is_there in zip(workspaces, found, strict=True) if not is_there]

    async def count(self, workspace: WorkspaceId, servers: Collection[str]) -> int:
        """Return how many members are in the sets of some servers, each once: one round trip. Raises Unreachable.

        Exact for up to 5,000, else an estimate.
        """
        keys = tuple(self._key(workspace, server) for server in sorted(servers))
        return int(await self._cache.one(Call("count_online", keys, (_MOST_COMPARED, _SAMPLE)))) if keys else 0

    async def list_first(self, workspace: WorkspaceId, servers: Collection[str], most: int) -> list[UserId]:
        """Return the first members in the sets of some servers, in the order of ids: one round trip."""
        calls = [Call("ZRANGE", (self._key(workspace, server),), (0, most - 1)) for server in servers]
        found = {UserId(user.decode()) for users in await self._cache.run(calls) for user in users}
        return sorted(found)[:most]

    def _key(self, workspace: WorkspaceId, server: str) -> str:
        return self._keys.of_clock(workspace, f"online:{server}")
