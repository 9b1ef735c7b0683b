"""Programs that use the pages in Chromium as people do (`web/tests/*.mjs`), and their results."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from server.http.static_pages import STATIC
from tests.processes import ROOT

PROGRAMS = ROOT / "web" / "tests"

_LONGEST_SECONDS = 900.0
_CHECK = re.compile(r'^check\(\s*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a check: its error, or None, and its duration in ms.

    error_of_one_run: the program ran twice, and the check failed in one of the runs only.
    """

    error: str | None
    milliseconds: int
    error_of_one_run: str | None = None


Outcomes = dict[str, Outcome]
"""Results of a program's checks, by sentence."""

FAILED_ONCE = "failed in one of two runs"
"""Property of the report of a test, for the summary: the error."""


def why_not() -> str | None:
    """Return the missing requirement of these programs, or None."""
    for program in ("chromium", "node"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if not (ROOT / "web" / "node_modules" / "playwright-core").is_dir():
        return "playwright-core is not installed (make web)"
    if not all((STATIC / page / "index.html").is_file() for page in ("playground", "demo")):
        return "the pages have not been built (make web)"
    return None


def checks_of(program: str) -> list[str]:
    """Return the sentences that a program checks, in order."""
    found = _CHECK.findall((PROGRAMS / f"{program}.mjs").read_text())
    assert found
    assert len(set(found)) == len(found)
    return found


async def run_program(program: str, url: str, pictures: Path) -> Outcomes:
    """Run a program against the Confab at the URL and return the outcome of each check.

    A check that the program never made has the end of the program as its error. If a check fails, the folder gets a
    screenshot of each page.
    """
    process = await asyncio.create_subprocess_exec(
        "node",
        str(PROGRAMS / f"{program}.mjs"),
        url,
        str(pictures),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "CHROMIUM": shutil.which("chromium") or "chromium"},
    )
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            told, complaint = await process.communicate()
        ending = f"the program ended with {process.returncode}: {complaint.decode()[-2000:]}"
    except TimeoutError:
        # Node ends its browser when it is terminated.
        process.terminate()
        told, _ = await process.communicate()
        ending = f"the program took longer than {_LONGEST_SECONDS:g} s"
    outcomes = {}
    for line in told.decode().splitlines():
        if line.startswith('{"check"'):
            made = json.loads(line)
            outcomes[made["check"]] = Outcome(made.get("error"), made["ms"])
    return {sentence: outcomes.get(sentence, Outcome(ending, 0)) for sentence in checks_of(program)}


async def run_again_if_failed(run: Callable[[], Awaitable[Outcomes]]) -> Outcomes:
    """Run a program, and a second time as a whole if a check failed. A check that fails in both runs has an error."""
    first = await run()
    if not has_failed(first):
        return first
    second = await run()
    return {sentence: _of_two_runs(first[sentence], second[sentence]) for sentence in first}


def has_failed(outcomes: Outcomes) -> bool:
    """Return whether a check of a program failed."""
    return any(outcome.error is not None for outcome in outcomes.values())


def _of_two_runs(first: Outcome, second: Outcome) -> Outcome:
    if first.error is not None and second.error is not None:
        return Outcome(first.error, first.milliseconds)
    return Outcome(None, second.milliseconds, error_of_one_run=first.error or second.error)


def report_outcome(outcome: Outcome, record_property: Callable[[str, object], None]) -> None:
    """Fail the current test if its check failed. The summary names a check that failed in one of two runs."""
    if outcome.error is not None:
        pytest.fail(outcome.error, pytrace=False)
    if outcome.error_of_one_run is not None:
        record_property(FAILED_ONCE, outcome.error_of_one_run)


def failed_once(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each report of a check that failed in one of two runs: its test, and the error's first line."""
    return [
        f"{report.nodeid}: {str(error).splitlines()[0]}"
        for report in reports
        for name, error in report.user_properties
        if name == FAILED_ONCE
    ]
