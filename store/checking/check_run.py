"""Runs checks on a deployment whose servers may be running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from store.checking.check import Check, Difference, Objects
from store.checking.files.objects import file_parts
from store.checking.objects import named_objects, object_parts
from store.mongo.paced_reads import PacedMongo, RowPace
from store.store import Store

OBJECTS_AT_ONCE = 100
"""Objects whose data is in memory at the same time."""

MAX_DIFFERENCES = 1_000
"""Objects with differences that are read again together."""

SETTLE_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Pauses between the readings of an object with a difference.

Together they are longer than it takes a server to finish what another one left when it died.
"""

MakeCheck = Callable[[Store], Check]
OnProgress = Callable[["CheckResult", int | None], None]
"""Called with the result so far, and the approximate number of objects; None: not known."""


@dataclass(slots=True)
class CheckResult:
    """Result of one check.

    Attributes:
        name: Name of the check.
        objects: Number of objects.
        rows: Rows that were read from MongoDB.
        differences: Those that remain.
        repaired: Those that were repaired.
        unsettled: Objects that had other differences at each reading, because they were being changed.
    """

    name: str
    objects: int = 0
    rows: int = 0
    differences: list[Difference] = field(default_factory=list)
    repaired: list[Difference] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CheckRun:
    """Goes through objects, and reports differences that persist.

    Servers write while objects are read, so most differences last for a moment only. An object with differences is
    read again after growing pauses. Only what is the same at all readings is reported.

    Attributes:
        first: For the first reading. It may be behind.
        store: For further readings and repairs.
        pace: Of the reads of both.
        repairs: Derive differing data again.
        only: The one object to go through; None: all.
        settle_seconds: See SETTLE_SECONDS.
        on_progress: See OnProgress.
    """

    first: Store
    store: Store
    pace: RowPace
    repairs: bool = False
    only: tuple[Objects, str] | None = None
    settle_seconds: Sequence[float] = SETTLE_SECONDS
    on_progress: OnProgress = lambda result, total: None

    async def run(self, make_check: MakeCheck) -> CheckResult:
        """Run one check. Raises StoreError."""
        first, check = make_check(self.first), make_check(self.store)
        if check.scope.is_cached or self.repairs:
            # Names of keys are known once there is a connection.
            await self.store.cache.ping()
        result, began_at = CheckResult(check.name), self.pace.rows
        total = await self._estimate_size(check)
        suspects: list[str] = []
        async for ids in self._parts(check):
            differing = {difference.object_id for difference in await first.compare(ids)}
            suspects += [id for id in ids if id in differing]
            result.objects += len(ids)
            result.rows = self.pace.rows - began_at
            self.on_progress(result, total)
            if len(suspects) >= MAX_DIFFERENCES:
                await self._settle(check, suspects, result)
                suspects = []
        await self._settle(check, suspects, result)
        result.rows = self.pace.rows - began_at
        self.on_progress(result, result.objects)
        return result

    async def _estimate_size(self, check: Check) -> int | None:
        mongo = self.first.mongo
        is_counted = check.scope.prefixes == ("",) and check.scope.objects is not Objects.BLOB
        if self.only is not None or not is_counted or not isinstance(mongo, PacedMongo):
            return None
        return await mongo.estimate_size(check.scope.objects.value)

    async def _parts(self, check: Check) -> AsyncIterator[list[str]]:
        if self.only is None:
            objects = check.scope.objects
            if objects is Objects.FILE or objects is Objects.BLOB:
                parts = file_parts(self.first, objects, OBJECTS_AT_ONCE)
            else:
                parts = object_parts(self.first.mongo, check.scope, OBJECTS_AT_ONCE)
            async for ids in parts:
                yield ids
            return
        objects, id = self.only
        if check.scope.objects is objects and id.startswith(check.scope.prefixes):
            yield await named_objects(self.store.mongo, objects, id)

    async def _settle(self, check: Check, suspects: Sequence[str], result: CheckResult) -> None:
        """Read objects again, and note the differences that persist, or repair them."""
        persistent, unsettled = await self._confirm(check, suspects)
        result.unsettled += unsettled
        repairable = [each for each in persistent if each.is_repairable] if self.repairs else []
        by_object: dict[str, list[Difference]] = {}
        for difference in repairable:
            by_object.setdefault(difference.object_id, []).append(difference)
        for id, differences in by_object.items():
            await check.repair(id, differences)
        remaining, _ = await self._confirm(check, list(by_object))
        left = {(each.object_id, each.field) for each in remaining}
        result.repaired += [each for each in repairable if (each.object_id, each.field) not in left]
        result.differences += [each for each in persistent if each not in result.repaired]

    async def _confirm(self, check: Check, ids: Sequence[str]) -> tuple[list[Difference], list[str]]:
        """Return the differences that are the same at all readings, and the objects with others at each reading."""
        suspects, persistent = list(ids), list[Difference]()
        for number, pause in enumerate((0.0, *self.settle_seconds)):
            if not suspects:
                break
            await asyncio.sleep(pause)
            found = await self._compare(check, suspects)
            persistent = found if number == 0 else [each for each in found if each in persistent]
            suspects = sorted({each.object_id for each in found})
        settled = {each.object_id for each in persistent}
        return persistent, [id for id in suspects if id not in settled]

    async def _compare(self, check: Check, ids: Sequence[str]) -> list[Difference]:
        found = []
        for start in range(0, len(ids), OBJECTS_AT_ONCE):
            found += await check.compare(ids[start : start + OBJECTS_AT_ONCE])
        return found
