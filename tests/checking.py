"""Runs the checks of derived data in tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from store.checking.check import Difference, Objects
from store.checking.check_run import CheckResult, CheckRun
from store.checking.registry import CHECKS
from store.mongo.paced_reads import RowPace
from store.store import Store


async def run_checks(
    store: Store,
    only: Iterable[str] = CHECKS,
    *,
    repairs: bool = False,
    object: tuple[Objects, str] | None = None,
    settle_seconds: Sequence[float] = (0.0,),
) -> dict[str, CheckResult]:
    """Return the results of checks by name."""
    run = CheckRun(store, store, RowPace(1e9), repairs=repairs, only=object, settle_seconds=settle_seconds)
    return {name: await run.run(CHECKS[name]) for name in only}


async def find_differences(store: Store) -> list[Difference]:
    """Return the differences that all checks find at a quiet moment."""
    return [difference for result in (await run_checks(store)).values() for difference in result.differences]
