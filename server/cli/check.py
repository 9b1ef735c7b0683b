"""`confab check`: compares derived data with the records, while servers may be running (ADR 74)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from server.blob_store import open_blob_store
from server.cli.clocks import read_clock
from server.errors import CommandError, database_error
from server.settings import Settings
from store.base.clock import DeploymentClock
from store.base.errors import StoreError
from store.build import build_store
from store.checking.check import Difference, Objects
from store.checking.check_run import SETTLE_SECONDS, CheckResult, CheckRun, OnProgress
from store.checking.registry import CHECKS
from store.checking.workspaces.role_counts import leave_to_servers
from store.deployment.present_generation import use_present_generation
from store.mongo.migrations import NewerData, check_version
from store.mongo.paced_reads import PacedMongo, RowPace
from store.redis.cache import Cache
from store.scripts import read_scripts

ALL_RIGHT, DIFFERENT = 0, 1
"""Exit codes. An error message ends with 2."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of the command. only: names of checks; empty: all. object: the one object to check."""

    only: Sequence[str] = ()
    object: tuple[Objects, str] | None = None
    repairs: bool = False
    rows_per_second: int = 5_000
    settle_seconds: float = sum(SETTLE_SECONDS)
    as_json: bool = False


async def check_data(settings: Settings, options: CheckOptions, console: Console, report: Callable[[str], None]) -> int:
    """Run checks and report their results. Returns the exit code.

    console: for progress. report: for results, line by line. Raises CommandError: not everything was checked.
    """
    unknown = sorted(set(options.only) - CHECKS.keys())
    if unknown:
        raise CommandError(f"There is no check {unknown[0]!r}. The checks are {', '.join(CHECKS)}.")
    results = list[CheckResult]()
    failure: CommandError | None = None
    try:
        async with _opened(settings, options) as run:
            for name, check in CHECKS.items():
                if not options.only or name in options.only:
                    with _progress(console, name) as on_progress:
                        result = await run(on_progress).run(check)
                    results.append(result)
                    if not options.as_json:
                        _report_result(result, report)
        if options.object is not None and not any(result.objects for result in results):
            kind, name = options.object
            raise CommandError(f"There is no {kind.name.lower()} {name} that these checks read.")
    except CommandError as error:
        failure = error
    except NewerData as error:
        failure = CommandError(str(error))
    except StoreError as error:
        failure = CommandError(f"Not everything was checked: {database_error(error)}")
    if options.as_json:
        report(json.dumps(_as_json(results, failure), ensure_ascii=False, default=str))
    if failure is not None:
        raise failure
    return DIFFERENT if any(result.differences for result in results) else ALL_RIGHT


@asynccontextmanager
async def _opened(settings: Settings, options: CheckOptions) -> AsyncIterator[Callable[[OnProgress], CheckRun]]:
    """Connect to the databases. Provides a function that returns a run with a function for progress."""
    pace = RowPace(options.rows_per_second)
    url, database, driver = settings.mongo_url, settings.mongo_database, settings.mongo_driver
    primary = PacedMongo(url, database, driver, pace)
    secondary = PacedMongo(url, database, driver, pace, prefers_secondaries=True)
    cache = Cache(settings.redis_url, read_scripts, prefix=settings.redis_prefix)
    try:
        await check_version(primary)
        clock = DeploymentClock(await read_clock(primary, database))
        first, store = (
            build_store(mongo, cache, clock, settings.data_center, blobs=open_blob_store(settings, mongo))
            for mongo in (secondary, primary)
        )
        store.policy_changes.completions.announce = leave_to_servers
        # Building a store makes its cache begin generations.
        use_present_generation(primary, cache)
        scale = options.settle_seconds / sum(SETTLE_SECONDS)
        yield lambda on_progress: CheckRun(
            first,
            store,
            pace,
            repairs=options.repairs,
            only=options.object,
            settle_seconds=[seconds * scale for seconds in SETTLE_SECONDS],
            on_progress=on_progress,
        )
        for each in (first, store):
            await each.blobs.close()
    finally:
        await cache.close()
        await primary.close()
        await secondary.close()


@contextmanager
def _progress(console: Console, name: str) -> Iterator[OnProgress]:
    """Show the progress of a check on a terminal."""
    if not console.is_terminal:
        yield lambda result, total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None, rows=0)
        yield lambda result, total: bar.update(task, completed=result.objects, total=total, rows=result.rows)


def _report_result(result: CheckResult, report: Callable[[str], None]) -> None:
    for difference in result.repaired:
        report(f"repaired: {difference}")
    for difference in result.differences:
        report(f"{difference}{'' if difference.is_repairable else ' (cannot be repaired)'}")
    for id in result.unsettled:
        report(f"{result.name}: {id} was being changed, and could not be judged")
    counts = [f"{result.objects:,} objects", f"{result.rows:,} rows", f"{len(result.differences):,} differences"]
    if result.repaired:
        counts.append(f"{len(result.repaired):,} repaired")
    report(f"{result.name}: {', '.join(counts)}")


def _as_json(results: Sequence[CheckResult], failure: CommandError | None) -> dict[str, object]:
    return {
        "error": str(failure) if failure is not None else None,
        "checks": [
            {
                "name": result.name,
                "objects": result.objects,
                "rows": result.rows,
                "differences": list(map(_difference_fields, result.differences)),
                "repaired": list(map(_difference_fields, result.repaired)),
                "unsettled": result.unsettled,
            }
            for result in results
        ],
    }


def _difference_fields(difference: Difference) -> dict[str, object]:
    return {
        "object": difference.object_id,
        "field": difference.field,
        "value": difference.value,
        "expected": difference.expected,
        "repairable": difference.is_repairable,
    }
