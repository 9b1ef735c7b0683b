"""A real Prometheus reads a server's metrics, evaluates all alerts, and answers every query of the dashboards."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from server.embedded import EmbeddedServers, ports
from tests.deployment.test_monitoring import GRAPHS, MONITORING, RULES
from tests.processes import ServerProcess, serving_processes

PROMETHEUS = shutil.which("prometheus")
SEND = 'mutation { sendMessage(input: {toUserId: "bob", content: "hello"}) { message { id } } }'
LIST = "{ sessions(first: 5) { edges { node { id } } } }"
WITH_DATA = {
    "confab-overview: Operations",
    "confab-overview: Operations that fail",
    "confab-overview: Fields with most operations",
    "confab-overview: Duration of queries",
    "confab-overview: Duration of mutations",
    "confab-overview: Duration of sendMessage",
    "confab-messages: Duration of group commits",
    "confab-messages: Messages per group commit",
}
"""Graphs that must show something after messages, queries and an error."""
_PATIENCE_SECONDS = 120.0


@contextmanager
def running_prometheus(folder: Path, target: int) -> Iterator[str]:
    """Run Prometheus with the configuration of deploy/monitoring and one server. Yields its URL."""
    assert PROMETHEUS is not None
    configuration = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{target}"]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    shutil.copy(MONITORING / "alerts.yaml", folder)
    address = f"127.0.0.1:{ports.pick_free(target)}"
    options = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [PROMETHEUS, *options, f"--web.listen-address={address}"], stdout=log, stderr=log, cwd=folder
        )
    try:
        yield f"http://{address}/api/v1"
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def busy_server(databases: EmbeddedServers, folder: Path, database: str, port: int) -> AsyncIterator[None]:
    """Run a server that answers queries, sends messages and refuses requests all the time."""
    settings = {"metrics_port": str(port)}
    async with serving_processes(databases, 1, folder, database, settings=settings) as (server,):
        using = asyncio.create_task(_use(server))
        try:
            yield
        finally:
            using.cancel()
            await asyncio.gather(using, return_exceptions=True)


async def _use(server: ServerProcess) -> None:
    async with (
        server.client("alice", timeout=_PATIENCE_SECONDS) as alice,
        server.client("bob", timeout=_PATIENCE_SECONDS) as bob,
    ):
        while True:
            # A user exists from the first request on.
            for client, query in ((bob, LIST), (alice, SEND), (alice, LIST), (alice, "{ unknown }")):
                # A server that is busy may refuse a request.
                with suppress(httpx.TransportError):
                    await client.post("/graphql", json={"query": query})
            await asyncio.sleep(0.1)


async def _answer(client: httpx.AsyncClient, path: str, **parameters: str) -> dict[str, Any]:
    response = await client.get(path, params=parameters)
    answer: dict[str, Any] = response.json()
    assert answer["status"] == "success", (path, parameters, answer)
    data: dict[str, Any] = answer["data"]
    return data


def _has_values(data: dict[str, Any]) -> bool:
    return any(series["value"][1] != "NaN" for series in data["result"])


async def _answers(client: httpx.AsyncClient, path: str) -> bool:
    try:
        return (await client.get(path)).is_success
    except httpx.TransportError:
        return False


@pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed (apt-get install prometheus)")
async def test_prometheus_answers_all_queries_and_evaluates_all_alerts(
    database_servers: EmbeddedServers, mongo_database_name: str, tmp_path: Path
) -> None:
    port = ports.pick_free()
    async with busy_server(database_servers, tmp_path, mongo_database_name, port):
        with running_prometheus(tmp_path, port) as url:
            async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE_SECONDS) as client:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    while not await _answers(client, "/targets"):  # noqa: ASYNC110  # another process
                        await asyncio.sleep(0.1)
                missing = set(WITH_DATA)
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    while missing:
                        await asyncio.sleep(0.5)
                        for name, _, query in GRAPHS:
                            if _has_values(await _answer(client, "/query", query=query)):
                                missing.discard(name)
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    while True:
                        (group,) = (await _answer(client, "/rules"))["groups"]
                        if all(rule["health"] != "unknown" for rule in group["rules"]):
                            break
                        await asyncio.sleep(0.2)
    assert [(rule["name"], rule["health"]) for rule in group["rules"]] == [(rule["alert"], "ok") for rule in RULES]
