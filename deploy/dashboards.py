"""Write the Grafana dashboards of deploy/monitoring/dashboards from the tables of this file.

Use: python deploy/dashboards.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "monitoring" / "dashboards"
_COLUMNS = 24
_WIDTH, _HEIGHT = 8, 8
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """One graph. `queries` are PromQL by legend; MINE stands for the chosen processes, RATE for the interval."""

    title: str
    unit: str
    queries: dict[str, str]
    description: str = ""


def _rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{MINE{more}}}[RATE]))"


def _quantile(share: float, metric: str, by: str = "", more: str = "") -> str:
    labels = "le, " + by if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{{MINE{more}}}[RATE])))"


def _quantiles(metric: str, more: str = "") -> dict[str, str]:
    return {"median": _quantile(0.5, metric, more=more), "99 %": _quantile(0.99, metric, more=more)}


_SEND = ',field="sendMessage"'

DASHBOARDS: dict[str, tuple[str, dict[str, list[Panel]]]] = {
    "confab-overview": (
        "Confab: overview",
        {
            "Requests": [
                Panel("Operations", "ops", {"{{kind}}": _rate("confab_operations_total", "kind")}),
                Panel(
                    "Operations that fail",
                    "ops",
                    {"{{code}}": _rate("confab_operations_total", "code", ',code!="OK"')},
                    "By first error code. INTERNAL is a defect; UNAVAILABLE is repeated by clients.",
                ),
                Panel("Fields with most operations", "ops", {
                    "{{field}}": "topk(10, " + _rate("confab_operations_total", "field") + ")",
                }),
                Panel("Duration of mutations", "s", _quantiles("confab_operation_seconds", ',kind="mutation"')),
                Panel("Duration of queries", "s", _quantiles("confab_operation_seconds", ',kind="query"')),
                Panel("Duration of sendMessage", "s", _quantiles("confab_operation_seconds", _SEND)),
            ],
            "Connections": [
                Panel("Connections", "short", {"{{of}}": "sum by (of) (confab_connections{MINE})"}),
                Panel("Subscriptions", "short", {"subscriptions": "sum(confab_subscriptions{MINE})"}),
                Panel(
                    "Subscriptions that start over", "ops", {"resets": "sum(rate(confab_resets_total{MINE}[RATE]))"}
                ),
                Panel("WebSockets closed by the server", "ops", {
                    "{{code}}": _rate("confab_websocket_closes_total", "code"),
                }),
                Panel("Connections dropped", "ops", {
                    "{{reason}}": _rate("confab_connections_dropped_total", "reason"),
                }),
                Panel("Tokens refused", "ops", {"tokens": "sum(rate(confab_tokens_refused_total{MINE}[RATE]))"}),
            ],
            "Limits": [
                Panel("Refused because of overload", "ops", {"{{what}}": _rate("confab_shed_total", "what")}),
                Panel("Refused because of limits by user", "ops", {
                    "{{limit}}": _rate("confab_limited_total", "limit"),
                }),
                Panel("Running operations", "short", {
                    "{{instance}}": "confab_operations_under_way{MINE}",
                    "{{instance}} limit": "confab_operations_limit{MINE}",
                }),
                Panel("Users with running operations", "short", {"{{instance}}": "confab_users_under_way{MINE}"}),
                Panel("Work that waits", "short", {"{{of}}": "sum by (of) (confab_waiting{MINE})"}),
                Panel("Bytes that wait", "bytes", {"{{of}}": "sum by (of) (confab_waiting_bytes{MINE})"}),
            ],
            "Processes": [
                Panel("Lateness of the event loop", "s", {
                    "{{instance}}": _quantile(0.99, "confab_loop_late_seconds", "instance"),
                }, "99 %. It delays each step of each operation."),
                Panel("CPU", "percentunit", {"{{instance}}": "rate(process_cpu_seconds_total{MINE}[RATE])"}),
                Panel("Memory", "bytes", {"{{instance}}": "process_resident_memory_bytes{MINE}"}),
                Panel("Open files", "percentunit", {
                    "{{instance}}": "process_open_fds{MINE} / process_max_fds{MINE}",
                }),
                Panel("Lease of the worker number", "s", {
                    "{{instance}}": "confab_worker_lease_remaining_seconds{MINE}",
                }, "Usually 25 to 40 s. Without it no messages can be sent."),
                Panel("Versions", "short", {"{{version}}": "count by (version) (confab_info{MINE})"}),
                Panel("Shared formats", "short", {
                    "{{instance}} {{of}}": "confab_shared_format{MINE}",
                }, "Of this process, the oldest of all, and the lowest that processes may have."),
            ],
        },
    ),
    "confab-messages": (
        "Confab: messages and databases",
        {
            "Delivery": [
                Panel("Messages", "ops", {"messages": "sum(rate(confab_commit_messages_sum{MINE}[RATE]))"}),
                Panel("Duration of group commits", "s", _quantiles("confab_commit_seconds")),
                Panel("Messages per group commit", "short", _quantiles("confab_commit_messages")),
                Panel("Messages in flight", "short", {"{{stage}}": "sum by (stage) (confab_messages_waiting{MINE})"}),
                Panel("Work after answers", "short", {"{{of}}": "sum by (of) (confab_after_answer{MINE})"}),
                Panel("Oldest message that is not delivered", "s", {"age": "max(confab_outbox_age_seconds{MINE})"}),
            ],
            "Databases": [
                Panel("Calls", "ops", {"{{database}}": _rate("confab_round_trips_total", "database")}),
                Panel("Failed calls", "ops", {"{{database}}": _rate("confab_database_failures_total", "database")}),
                Panel("Callers that wait for Redis", "short", {"{{instance}}": "confab_redis_waiting{MINE}"}),
                Panel("Found in Redis", "percentunit", {
                    "{{of}}": _rate("confab_cache_total", "of", ',outcome="hit"')
                    + " / " + _rate("confab_cache_total", "of"),
                }, "The rest is loaded from MongoDB."),
                Panel("Rows migrated", "ops", {"rows": "sum(rate(confab_migrated_rows_total{MINE}[RATE]))"}),
                Panel("Executions of events", "short", {"{{of}}": "sum by (of) (confab_executions{MINE})"}),
            ],
            "Workspaces and presence": [
                Panel("Events of workspaces", "ops", {"{{kind}}": _rate("confab_clock_events_total", "kind")}),
                Panel("Resumed positions", "ops", {"{{outcome}}": _rate("confab_clock_resumes_total", "outcome")}),
                Panel("Subscriptions by clock", "short", {"{{of}}": "sum by (of) (confab_clock_subscriptions{MINE})"}),
                Panel("Workspaces watched", "short", {"{{instance}}": "confab_workspaces_watched{MINE}"}),
                Panel("Changes of rights", "s", _quantiles("confab_policy_change_seconds")),
                Panel("Changes of rights that fail", "short", {
                    "failed a second": "sum(rate(confab_policy_changes_failed_total{MINE}[RATE]))",
                    "incomplete": "sum(confab_policy_changes_incomplete{MINE})",
                }),
                Panel("Users whose presence is shown", "short", {"{{instance}}": "confab_presence_watched{MINE}"}),
                Panel("Frames of presence", "ops", {"frames": "sum(rate(confab_presence_frames_total{MINE}[RATE]))"}),
            ],
        },
    ),
    "confab-background": (
        "Confab: files, search, pushes, webhooks",
        {
            "Files and previews": [
                Panel("Uploads", "ops", {"{{status}}": _rate("confab_uploads_total", "status")}),
                Panel("Interrupted uploads", "ops", {
                    "uploads": "sum(rate(confab_uploads_interrupted_total{MINE}[RATE]))",
                }),
                Panel("Downloads", "ops", {"{{status}}": _rate("confab_downloads_total", "status")}),
                Panel("Bytes of files", "Bps", {"{{direction}}": _rate("confab_file_bytes_total", "direction")}),
                Panel("Running downloads", "short", {"{{instance}}": "confab_downloads_running{MINE}"}),
                Panel("Limited downloads", "ops", {"{{outcome}}": _rate("confab_downloads_limited_total", "outcome")}),
                Panel("Inspections", "ops", {
                    "{{kind}}, {{outcome}}": _rate("confab_inspections_total", "kind, outcome"),
                }),
                Panel("Thumbnails", "ops", {"thumbnails": "sum(rate(confab_thumbnails_total{MINE}[RATE]))"}),
                Panel("Files removed", "ops", {"{{outcome}}": _rate("confab_files_swept_total", "outcome")}),
                Panel("Link previews", "ops", {"{{outcome}}": _rate("confab_link_previews_total", "outcome")}),
                Panel("Messages that wait for previews", "short", {
                    "{{instance}}": "confab_link_previews_waiting{MINE}",
                }),
            ],
            "Search": [
                Panel("Messages indexed", "ops", {"messages": "sum(rate(confab_search_indexed_total{MINE}[RATE]))"}),
                Panel("Messages that wait", "short", {"messages": "max(confab_search_waiting{MINE})"}),
                Panel("Age of what waits", "s", {
                    "oldest": "max(confab_search_waiting_age_seconds{MINE})",
                    "oldest of the past": "max(confab_search_past_seconds{MINE})",
                }),
            ],
            "Pushes": [
                Panel("Pushes", "ops", {
                    "{{service}}, {{outcome}}": _rate("confab_pushes_total", "service, outcome"),
                }),
                Panel("Decisions", "ops", {"{{verdict}}": _rate("confab_push_decisions_total", "verdict")}),
                Panel("Work that waits", "short", {"{{of}}": "max by (of) (confab_push_waiting{MINE})"}),
                Panel("Overdue", "s", {"{{of}}": "max by (of) (confab_push_waiting_age_seconds{MINE})"}),
            ],
            "Webhooks and the hook for content": [
                Panel("Attempts", "ops", {"{{outcome}}": _rate("confab_webhook_attempts_total", "outcome")}),
                Panel("Events that wait", "short", {"events": "max(confab_webhook_events_waiting{MINE})"}),
                Panel("Age of the oldest event", "s", {"oldest": "max(confab_webhook_events_age_seconds{MINE})"}),
                Panel("Paused webhooks", "short", {"webhooks": "max(confab_webhooks_paused{MINE})"}),
                Panel("Calls of the hook", "ops", {"{{outcome}}": _rate("confab_content_hook_calls_total", "outcome")}),
                Panel("Duration of the hook", "s", _quantiles("confab_content_hook_seconds")),
                Panel("Processes that do not ask the hook", "short", {
                    "processes": "sum(confab_content_hook_failing{MINE})",
                }),
            ],
        },
    ),
}  # fmt: skip


def _write_query(query: str) -> str:
    return query.replace("MINE", 'instance=~"$instance"').replace("RATE", "$__rate_interval")


def _graph(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _DATASOURCE,
                "expr": _write_query(query),
                "legendFormat": name,
            }
            for place, (name, query) in enumerate(panel.queries.items())
        ],
    }


def _row(title: str, number: int, y: int) -> dict[str, Any]:
    position = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": position, "panels": []}


def _panels(rows: dict[str, list[Panel]]) -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = []
    y = 0
    for title, graphs in rows.items():
        panels.append(_row(title, len(panels) + 1, y))
        y += 1
        for place, graph in enumerate(graphs):
            line, column = divmod(place, _COLUMNS // _WIDTH)
            panels.append(_graph(graph, len(panels) + 1, column * _WIDTH, y + line * _HEIGHT))
        y += -(-len(graphs) // (_COLUMNS // _WIDTH)) * _HEIGHT
    return panels


def make_dashboard(uid: str) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it."""
    title, rows = DASHBOARDS[uid]
    instance = {
        "name": "instance",
        "label": "process",
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": "label_values(confab_info, instance)", "refId": "instance"},
        "definition": "label_values(confab_info, instance)",
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
    return {
        "uid": uid,
        "title": title,
        "tags": ["confab"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [{"title": "Confab", "type": "dashboards", "tags": ["confab"], "asDropdown": True}],
        "templating": {
            "list": [
                {"name": "datasource", "label": "source", "type": "datasource", "query": "prometheus"},
                instance,
            ]
        },
        "panels": _panels(rows),
    }


def write_dashboard(uid: str) -> str:
    """Return the text of a dashboard's file."""
    return json.dumps(make_dashboard(uid), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all dashboards."""
    FOLDER.mkdir(exist_ok=True)
    for uid in DASHBOARDS:
        (FOLDER / f"{uid}.json").write_text(write_dashboard(uid), encoding="utf-8")


if __name__ == "__main__":
    main()
