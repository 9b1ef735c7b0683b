"""The results in docs/benchmarks.md, and its picture."""

from __future__ import annotations

from bench.suite import goals
from bench.suite.plot import draw
from bench.suite.profiles import GROWTH
from bench.suite.report import growth_of, markdown, table_of, topics_of
from bench.suite.run import Result
from tests.processes import ROOT

PAGE, PICTURE = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks.svg"
_MARKS = {
    False: ("<!-- results: written by `python -m bench --write-docs` -->", "<!-- end of results -->"),
    True: ("<!-- growth: written by `python -m bench growth --write-docs` -->", "<!-- end of growth -->"),
}


def write_docs(result: Result) -> None:
    """Replace the results of one kind of run between the page's marks. Growth has no picture."""
    growth = result.profile == GROWTH.name
    before, begin, rest = PAGE.read_text().partition(_MARKS[growth][0])
    _, end, after = rest.partition(_MARKS[growth][1])
    if not (begin and end):
        raise ValueError(f"{PAGE} has no place for results")
    PAGE.write_text(f"{before}{begin}\n\n{_results(result)}\n{end}{after}")
    if not growth:
        PICTURE.write_text(draw(result.figures))


def _results(result: Result) -> str:
    parts = []
    if result.profile != GROWTH.name and (comparison := goals.comparison(result.figures)):
        parts += ["### Comparison", markdown(comparison)]
    for topic, figures in topics_of(result):
        parts.append(f"### {topic.title}")
        if topic.note:
            parts.append(f"{topic.note[0].upper()}{topic.note[1:]}.")
        parts.append(markdown(table_of(figures)))
        if growth := growth_of(topic, figures):
            parts.append(growth)
    return "\n\n".join(parts) + "\n"
