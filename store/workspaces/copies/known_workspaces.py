"""The workspaces of users, in the memory of this process, with their positions on their clocks.

A copy of a workspace is up to date if it has the present policy version, and its stamp stays: every change but joining
raises the version. A copy of the list of a user's workspaces is up to date if its stamp stays. It may name workspaces
that the user has left since: callers check the membership.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.clocks.shared_clocks import ClockReading, SharedClocks, parse_reading
from store.redis.cache import Cache, Call
from store.workspaces.copies.membership_stamps import MembershipStamps
from store.workspaces.policies import Policies
from store.workspaces.user_workspaces import UserWorkspaces
from store.workspaces.workspace_info import WorkspaceInfo
from store.workspaces.workspace_store import WorkspaceStore

K = TypeVar("K")
V = TypeVar("V")

_MAX_COPIES = 50_000


class KnownWorkspace(NamedTuple):
    """A workspace, and a tick of its clock that `info` includes."""

    info: WorkspaceInfo
    tick: int


class _Copies(OrderedDict[K, tuple[str, V]], Generic[K, V]):
    """Copies by key, each with the stamp that was read before it. What was kept first is dropped first."""

    def keep(self, key: K, stamp: str, value: V) -> None:
        """Keep a copy, unless a change was being made when its stamp was read."""
        if stamp:
            self[key] = (stamp, value)
            self.move_to_end(key)
            if len(self) > _MAX_COPIES:
                self.popitem(last=False)


class WorkspaceReads(NamedTuple):
    """Calls that read the stamp of a user's list, and clocks and stamps of workspaces."""

    workspaces: tuple[WorkspaceId, ...]
    calls: list[Call]


class _Readings(NamedTuple):
    of_user: str
    clocks: dict[WorkspaceId, ClockReading]
    stamps: dict[WorkspaceId, str]


class KnownWorkspaces:
    """Finds the workspaces of users."""

    def __init__(
        self,
        cache: Cache,
        clocks: SharedClocks,
        stamps: MembershipStamps,
        policies: Policies,
        workspaces: WorkspaceStore,
        user_workspaces: UserWorkspaces,
    ) -> None:
        """Start without copies."""
        self._cache = cache
        self._clocks = clocks
        self._stamps = stamps
        self._policies = policies
        self._workspaces = workspaces
        self._user_workspaces = user_workspaces
        self._lists: _Copies[UserId, tuple[WorkspaceId, ...]] = _Copies()
        self._infos: _Copies[WorkspaceId, WorkspaceInfo] = _Copies()

    def begin(self, user: UserId) -> WorkspaceReads:
        """Return the calls that show which copies are up to date. `find` takes their answers."""
        return self._reads(user, self._lists[user][1] if user in self._lists else ())

    async def find(self, user: UserId, reads: WorkspaceReads, answers: Sequence[Any]) -> list[KnownWorkspace]:
        """Return workspaces that a user may be a member of, all of theirs among them, in the order of joining.

        No round trip if this process has copies of all that are up to date.

        Args:
            user: The user.
            reads: Of `begin`.
            answers: Of its calls.
        """
        readings = await self._parse(user, reads, answers)
        stamp, listed = self._lists.get(user, ("", ()))
        if not stamp or stamp != readings.of_user:
            listed = tuple(entry.workspace for entry in await self._user_workspaces.list_joined(user))
            self._lists.keep(user, readings.of_user, listed)
        new = tuple(workspace for workspace in listed if workspace not in readings.clocks)
        if new:
            more = self._reads(user, new)
            found = await self._parse(user, more, await self._cache.run(more.calls))
            readings.clocks.update(found.clocks)
            readings.stamps.update(found.stamps)
        infos = await self._find_infos(listed, readings)
        return [KnownWorkspace(infos[name], readings.clocks[name].tick) for name in listed if name in infos]

    def _reads(self, user: UserId, workspaces: tuple[WorkspaceId, ...]) -> WorkspaceReads:
        # A clock is read before its stamp, so that a copy includes the tick.
        clocks = map(self._clocks.read_call, workspaces)
        return WorkspaceReads(workspaces, [*clocks, *map(self._stamps.read_call, self._keys(user, workspaces))])

    def _keys(self, user: UserId, workspaces: Sequence[WorkspaceId]) -> list[str]:
        return [self._stamps.of_user(user), *map(self._stamps.of_workspace, workspaces)]

    async def _parse(self, user: UserId, reads: WorkspaceReads, answers: Sequence[Any]) -> _Readings:
        """Return what was read. Stamps that are not there begin."""
        workspaces, count = reads.workspaces, len(reads.workspaces)
        clocks = dict(zip(workspaces, map(parse_reading, answers[:count]), strict=True))
        found = [self._stamps.parse(answer) for answer in answers[count:]]
        missing = [key for key, stamp in zip(self._keys(user, workspaces), found, strict=True) if stamp is None]
        begun = await self._stamps.begin(missing)
        of_user, *of_workspaces = [begun if stamp is None else stamp for stamp in found]
        return _Readings(of_user, clocks, dict(zip(workspaces, of_workspaces, strict=True)))

    async def _find_infos(
        self, workspaces: Sequence[WorkspaceId], readings: _Readings
    ) -> dict[WorkspaceId, WorkspaceInfo]:
        """Return those workspaces that exist, from copies that are up to date, else from MongoDB."""
        infos = dict[WorkspaceId, WorkspaceInfo]()
        for name in workspaces:
            stamp, info = self._infos.get(name, ("", None))
            is_same = stamp != "" and stamp == readings.stamps[name]
            if info is not None and is_same and info.version == readings.clocks[name].policy_version:
                infos[name] = info
        missing = [name for name in workspaces if name not in infos]
        if missing:
            # Redis has the versions from then on.
            unknown = [name for name in missing if readings.clocks[name].policy_version is None]
            found, _ = await asyncio.gather(
                self._workspaces.find_many(missing), asyncio.gather(*map(self._policies.current_version, unknown))
            )
            infos |= found
            for name, info in found.items():
                self._infos.keep(name, readings.stamps[name], info)
        return infos
