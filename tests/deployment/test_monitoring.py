"""Alerts and dashboards: each query names metrics, labels and values that the server has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml
from graphql import build_schema
from prometheus_client import CollectorRegistry, ProcessCollector

from schema.base.errors import ErrorCode
from tests.architecture.test_docs import anchors
from tests.deployment.compose_file import ROOT
from tests.deployment.metric_names import PROCESS_METRICS, labels_by_metric, texts

promql_parser = pytest.importorskip("promql_parser", reason="promql-parser has no wheel for this machine")

MONITORING = ROOT / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"][0]["rules"]
DASHBOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted((MONITORING / "dashboards").glob("*.json"))
}
PROMTOOL = shutil.which("promtool")
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds."""
OPERATIONS = (MONITORING.parents[1] / "docs" / "operations" / "monitoring.md").read_text()


def graphs() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each graph, the legend and the query of each of its lines."""
    for name, dashboard in DASHBOARDS.items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                query = target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
                yield f"{name}: {panel['title']}", target["legendFormat"], query


GRAPHS = list(graphs())
QUERIES = [*((rule["alert"], rule["expr"]) for rule in RULES), *((name, query) for name, _, query in GRAPHS)]


@dataclass
class Selection:
    """The parts of a query: selectors of series, and labels of `by`."""

    found: list[Any] = field(default_factory=list)
    grouped: list[str] = field(default_factory=list)

    def visit(self, node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            self.found.append(node)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            self.grouped += node.modifier.labels
        return True


def select(query: str) -> Selection:
    """Parse a query. Refuses a wrong one."""
    selection = Selection()
    promql_parser.walk(promql_parser.parse(query), selection.visit)
    assert selection.found, query
    return selection


def values_of(label: str) -> frozenset[str]:
    """Return the values that a label may have."""
    match label:
        case "code":
            return frozenset(code.name for code in ErrorCode) | {"OK"}
        case "kind":
            return frozenset({"query", "mutation", "subscription", "none"}) | texts()
        case "field":
            schema = build_schema((ROOT / "schema" / "schema.graphql").read_text())
            roots = (schema.query_type, schema.mutation_type, schema.subscription_type)
            return frozenset(name for root in roots if root is not None for name in root.fields)
        case "job":
            return frozenset({"confab"})
        case _:
            return texts()


def test_the_code_has_the_metrics_of_the_documents() -> None:
    """Guards the other tests: they would pass if no metric was found."""
    rows = re.findall(r"^\| (`confab_[^|]+) \|", OPERATIONS, re.MULTILINE)
    named = {name: labels for row in rows for name, labels in re.findall(r"`(confab_\w+)(?:\{([\w,]+)\})?`", row)}
    assert len(named) > 50
    known = labels_by_metric()
    for name, labels in named.items():
        series = name if name in known else f"{name}_bucket"
        assert series in known, name
        assert not labels or set(labels.split(",")) == known[series] - {"le"}, name


def test_processes_have_the_metrics_of_processes() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    assert set(PROCESS_METRICS) <= {sample.name for family in registry.collect() for sample in family.samples}


@pytest.mark.parametrize(("name", "query"), QUERIES, ids=[f"{number}" for number in range(len(QUERIES))])
def test_queries_use_metrics_and_labels_of_the_server(name: str, query: str) -> None:
    selectors = select(query)
    known = labels_by_metric()
    for selector in selectors.found:
        if selector.name == "up":
            continue
        assert selector.name in known, f"{name}: {selector.name}"
        for matcher in selector.matchers.matchers:
            assert matcher.name in known[selector.name] | OF_PROMETHEUS, f"{name}: {selector.name}{{{matcher.name}}}"
            if matcher.name != "instance":
                assert set(matcher.value.split("|")) <= values_of(matcher.name), f"{name}: {matcher.value}"
        allowed = frozenset[str]().union(*(known.get(each.name, frozenset()) for each in selectors.found))
        assert set(selectors.grouped) <= allowed | OF_PROMETHEUS, name


@pytest.mark.parametrize(("name", "legend", "query"), GRAPHS, ids=[f"{number}" for number in range(len(GRAPHS))])
def test_legends_name_labels_of_their_lines(name: str, legend: str, query: str) -> None:
    selectors = select(query)
    available = set(selectors.grouped) or labels_by_metric()[selectors.found[0].name] | {"instance"}
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= available, name


def test_every_metric_is_in_a_dashboard_or_an_alert() -> None:
    used = {selector.name for _, query in QUERIES for selector in select(query).found}
    stems = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    assert {name for name in labels_by_metric() if re.sub(r"_(bucket|sum|count)$", "", name) not in stems} == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_say_what_is_wrong_and_where_to_read_on(rule: dict[str, Any]) -> None:
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook"}
    assert notes["description"].endswith(".") and len(notes["description"]) > 60
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    path, _, anchor = notes["runbook"].partition("#")
    assert anchor in anchors(ROOT / path), notes["runbook"]
    assert f"| `{rule['alert']}` |" in OPERATIONS, "the table of alerts has no row for it"


def test_the_table_of_alerts_has_no_others() -> None:
    assert set(re.findall(r"^\| `(Confab\w+)` \|", OPERATIONS, re.MULTILINE)) == {rule["alert"] for rule in RULES}


def test_dashboards_are_those_of_their_table() -> None:
    from deploy import dashboards

    assert {name: dashboards.write_dashboard(name) for name in dashboards.DASHBOARDS} == {
        path.stem: path.read_text() for path in (MONITORING / "dashboards").iterdir()
    }, "run: make manifests"


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_graphs_of_a_dashboard_do_not_overlap(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (apt-get install prometheus)")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", str(MONITORING / "prometheus.yml")),
        ("test", "rules", str(ROOT / "tests" / "deployment" / "alerts_test.yaml")),
    ],
    ids=["configuration and rules", "tests of rules"],
)
def test_prometheus_accepts_the_files(arguments: tuple[str, ...]) -> None:
    assert PROMTOOL is not None
    result = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "SUCCESS" in result.stdout
