"""The results in docs/benchmarks/results.md, their summary and picture, and the comparison in the README."""

from __future__ import annotations

import textwrap
from pathlib import Path

from bench.suite import goals
from bench.suite.plot import draw
from bench.suite.profiles import GROWTH
from bench.suite.report import growth_of, markdown, table_of, topics_of
from bench.suite.run import Result
from tests.processes import ROOT

README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "docs" / "benchmarks" / "results.md"
PICTURE = PAGE.with_suffix(".svg")
COMPARISON = "### Comparison\n\n"

SUMMARY_MARKS = ("<!-- summary: written by `python -m bench --write-docs` -->", "<!-- end of summary -->")
RESULTS_MARKS = ("<!-- results: written by `python -m bench --write-docs` -->", "<!-- end of results -->")
GROWTH_MARKS = ("<!-- growth: written by `python -m bench growth --write-docs` -->", "<!-- end of growth -->")
README_MARKS = ("<!-- figures: written by `python -m bench --write-docs` -->", "<!-- end of figures -->")


def write_docs(result: Result) -> None:
    """Replace the results of one kind of run. Growth has no comparison, no summary and no picture."""
    if result.profile == GROWTH.name:
        _replace(RESULTS, GROWTH_MARKS, _topics(result))
        return
    table = markdown(goals.comparison(result.figures))
    _replace(PAGE, SUMMARY_MARKS, markdown(goals.summary(result.figures)))
    _replace(RESULTS, RESULTS_MARKS, f"{COMPARISON}{table}\n\n{_topics(result)}")
    _replace(README, README_MARKS, table)
    PICTURE.write_text(draw(result.figures))


def between(page: Path, marks: tuple[str, str]) -> tuple[str, str, str]:
    """Return the parts of a page before, between and after two marks, which belong to the outer parts."""
    before, begin, rest = page.read_text().partition(marks[0])
    text, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"{page} has no place for results")
    return before + begin, text, end + after


def _replace(page: Path, marks: tuple[str, str], text: str) -> None:
    before, _, after = between(page, marks)
    page.write_text(f"{before}\n\n{text}\n\n{after}")


def _wrap(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False)


def _topics(result: Result) -> str:
    parts = []
    for topic, figures in topics_of(result):
        parts.append(f"### {topic.title}")
        if topic.note:
            parts.append(_wrap(f"{topic.note[0].upper()}{topic.note[1:]}."))
        parts.append(markdown(table_of(figures)))
        if growth := growth_of(topic, figures):
            parts.append(_wrap(growth))
    return "\n\n".join(parts)
