"""The benchmarks measure what they claim: requests are valid, waiting counts, and budgets are enforced."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
from graphql import build_schema, parse, validate

from bench import workspaces
from bench.baseline.schema import schema as baseline_schema
from bench.budgets import BUDGETS, judge
from bench.files import transfers
from bench.peers import node
from bench.suite import docs
from bench.suite.figures import Figures
from bench.suite.goals import GOALS, comparison
from bench.suite.plot import draw
from bench.suite.queries import ALL, MESSAGE_EVENTS
from bench.suite.report import read_results, table_of, write_results
from bench.suite.request_rates import Asker, RequestStats, opened
from bench.suite.run import Result
from bench.suite.turns import check_same_answers
from bench.threads import pages, reacting, replies
from schema.root import SCHEMA


class SlowClient:
    """A client that answers after a fixed delay."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def ask(self, _body: bytes, taken: Callable[[bytes], None]) -> None:
        asyncio.get_running_loop().call_later(self._seconds, taken, b"{}")


@pytest.mark.parametrize("name", [*ALL, "MESSAGE_EVENTS"])
def test_all_servers_accept_the_same_requests(name: str) -> None:
    document = parse({**ALL, "MESSAGE_EVENTS": MESSAGE_EVENTS}[name])
    _, node_schema, _ = (node.FOLDER / "schema.mjs").read_text().split("`", 2)
    for schema in (SCHEMA._schema, baseline_schema._schema, build_schema(node_schema)):
        assert validate(schema, document) == []


@pytest.mark.parametrize("query", [workspaces.WORKSPACE_EVENTS, workspaces.CHANNEL_EVENTS, workspaces.OPEN])
def test_the_requests_of_the_benchmark_of_workspaces_are_valid(query: str) -> None:
    assert validate(SCHEMA._schema, parse(query % "c_1.2")) == []


@pytest.mark.parametrize(
    "query",
    [
        *(reacting.WATCH % "c_1.2", reacting.ADD, reacting.MESSAGE, reacting.REACTORS),
        *(replies.EVENTS, replies.MENTION, replies.REPLY, replies.THREAD),
        *(transfers.CREATE_UPLOAD, transfers.COMPLETE_UPLOAD, transfers.SEND_FILE),
        *(pages.page_of(pages.THREADS, pages.REACTIONS), pages.PIN),
    ],
)
def test_the_requests_of_the_benchmarks_of_subjects_are_valid(query: str) -> None:
    assert validate(SCHEMA._schema, parse(query)) == []


def test_answers_with_other_fields_or_rows_stop_a_run() -> None:
    rows = {"edges": [{"seq": 1, "text": "a"}, {"seq": 2, "text": "b"}]}
    same = {"edges": [{"seq": 3, "text": None}, {"seq": 4, "text": "d"}]}
    check_same_answers("list", {"one": json.dumps(rows), "other": json.dumps(same)})
    for differing in ({"edges": rows["edges"][:1]}, {"edges": [{"seq": 1}, {"seq": 2}]}):
        with pytest.raises(RuntimeError, match="differently"):
            check_same_answers("list", {"one": json.dumps(rows), "other": json.dumps(differing)})


async def test_a_request_without_a_free_worker_has_waited() -> None:
    report = await opened(RequestStats(), [Asker(SlowClient(0.02), ["{}"])], 0.2, 100.0)
    # Twice as many requests come as can be answered: the last ones wait for about half of the time.
    assert report["p99"] > 0.06 > 0.02


@pytest.mark.parametrize("more", [(1, 0), (0, 1)])
def test_an_operation_above_its_round_trip_budget_is_named(more: tuple[int, int]) -> None:
    for key, (mongo, redis) in BUDGETS.items():
        assert judge(key, key, (mongo, redis)) == []
        (sentence,) = judge(key, "that one", (mongo + more[0], redis + more[1]))
        assert sentence.startswith("that one waits for")


def test_results_can_be_read_again_and_drawn(tmp_path: Path) -> None:
    figures = [
        Figures("private-http", name, rate=100.0, p50=0.01, cpu={"server": cpu, "mongo": cpu, "redis": cpu})
        for name, cpu in (("Confab", 0.001), ("baseline", 0.002), ("floor", 0.0005))
    ]
    figures[0].trips = (1, 2)
    write_results(Result("quick", 12.0, figures), tmp_path)
    assert read_results(tmp_path).figures == figures
    assert json.loads((tmp_path / "results.json").read_text())["profile"] == "quick"
    picture = ElementTree.fromstring(draw(figures))
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"3 ms", "6 ms", "1.5 ms"} <= set(texts)
    (row,) = [row for row in comparison(figures)[1:] if row[1] != "not there"]
    assert row[:5] == ("private message over HTTP, 20 in flight", "3 ms", "not there", "not there", "6 ms")
    assert row[-3:] == ("1.2 ms", "2.50", "0.50")
    head, confab, baseline, _ = table_of(figures)
    assert confab[head.index("trips")] == "1 + 2"
    assert baseline[head.index("Confab = 1")] == "2.00"


def test_the_readme_and_the_benchmark_page_have_the_figures_of_one_run() -> None:
    _, figures, _ = docs.between(docs.README, docs.README_MARKS)
    _, results, _ = docs.between(docs.RESULTS, docs.RESULTS_MARKS)
    table, _, _ = results.partition(docs.COMPARISON)[2].partition("\n\n")
    assert table.startswith("| CPU of server and databases") and figures.strip() == table
    _, summary, _ = docs.between(docs.PAGE, docs.SUMMARY_MARKS)
    measured = {cells[0]: [figure_in(cell) for cell in cells[1:5]] for cells in rows(table)}
    ratios = {cells[0]: [figure_in(cell) for cell in cells[1:]] for cells in rows(summary)}
    titles = {goal.title: goal.summary for goal in GOALS if goal.summary}
    assert set(ratios) == set(titles.values())
    for title, summarised in titles.items():
        confab, *others = measured[title]
        assert confab
        expected = [None if value is None else value / confab for value in others]
        # Both tables are rounded.
        assert ratios[summarised] == [None if value is None else pytest.approx(value, rel=0.06) for value in expected]


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table in Markdown, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]


def figure_in(cell: str) -> float | None:
    number = cell.split()[0].replace(",", "")
    return None if number == "-" else float(number)


def test_results_are_written_into_all_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("README", "PAGE", "RESULTS"):
        (tmp_path / name).write_text(getattr(docs, name).read_text())
        monkeypatch.setattr(docs, name, tmp_path / name)
    monkeypatch.setattr(docs, "PICTURE", tmp_path / "picture.svg")
    figures = [
        Figures("private-http", name, rate=100.0, p50=0.01, cpu={"server": cpu, "mongo": cpu, "redis": cpu})
        for name, cpu in (("Confab", 0.001), ("baseline", 0.002), ("Node", 0.2))
    ]
    docs.write_docs(Result("quick", 12.0, figures))
    comparison_row = (
        "| private message over HTTP, 20 in flight | 3 ms | 600 ms | not there | 6 ms | 1.2 ms | 2.50 | 0.50 |"
    )
    assert docs.between(docs.README, docs.README_MARKS)[1].strip().splitlines()[2:] == [comparison_row]
    assert comparison_row in docs.between(docs.RESULTS, docs.RESULTS_MARKS)[1]
    assert rows(docs.between(docs.PAGE, docs.SUMMARY_MARKS)[1]) == [
        ["private message, 20 in flight", "200", "not there", "2.0"]
    ]
    assert "<svg" in docs.PICTURE.read_text()
    results = docs.between(docs.RESULTS, docs.RESULTS_MARKS)
    docs.write_docs(Result("growth", 12.0, figures[:1]))
    assert "### Private message" in docs.between(docs.RESULTS, docs.GROWTH_MARKS)[1]
    assert docs.between(docs.RESULTS, docs.RESULTS_MARKS)[:2] == results[:2]
