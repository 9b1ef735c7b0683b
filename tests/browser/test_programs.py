"""A browser program with failed checks runs a second time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser import programs
from tests.browser.programs import Outcomes, failed_once, report_outcome, run_again_if_failed, run_program

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

PROGRAM = """
import { appendFileSync, readFileSync } from "node:fs";

const runs = `${process.argv[3]}/runs`;
appendFileSync(runs, "x");
const isFirst = readFileSync(runs).length === 1;
const check = (sentence, error) => console.log(JSON.stringify({ check: sentence, ms: 1, ...(error && { error }) }));

check("passes");
"""
FLAKY = """
check("fails first", isFirst && "too slow\\nat line 5");
check("fails later", !isFirst && "not there");
check("fails twice", isFirst ? "wrong" : "wrong again");
"""


@pytest.fixture(autouse=True)
def _folder_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PROGRAMS", tmp_path)


async def run_written(folder: Path, text: str) -> Outcomes:
    (folder / "program.mjs").write_text(text)
    return await run_again_if_failed(lambda: run_program("program", "http://127.0.0.1:1", folder))


async def test_a_program_without_failures_runs_once(tmp_path: Path) -> None:
    outcomes = await run_written(tmp_path, PROGRAM)
    assert [outcome.error for outcome in outcomes.values()] == [None]
    assert (tmp_path / "runs").read_text() == "x"


async def test_only_checks_that_fail_in_both_runs_fail(tmp_path: Path) -> None:
    outcomes = await run_written(tmp_path, PROGRAM + FLAKY)
    assert (tmp_path / "runs").read_text() == "xx"
    assert {sentence: outcome.error for sentence, outcome in outcomes.items()} == {
        "passes": None, "fails first": None, "fails later": None, "fails twice": "wrong"
    }  # fmt: skip
    with pytest.raises(pytest.fail.Exception, match="wrong"):
        report_outcome(outcomes["fails twice"], lambda name, error: None)


async def test_checks_that_fail_in_one_run_are_named_in_the_summary(tmp_path: Path) -> None:
    reports = []
    for sentence, outcome in (await run_written(tmp_path, PROGRAM + FLAKY)).items():
        if outcome.error is None:
            properties: list[tuple[str, object]] = []
            report_outcome(outcome, lambda name, error, to=properties: to.append((name, error)))
            reports.append(
                pytest.TestReport(sentence, ("", 0, ""), {}, "passed", None, "call", user_properties=properties)
            )
    assert failed_once(reports) == ["fails first: too slow", "fails later: not there"]
