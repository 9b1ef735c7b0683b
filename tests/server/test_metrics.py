"""Metrics for Prometheus: values, labels and ports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from schema.root import SCHEMA
from server.embedded import ports
from server.observability.metrics import Metrics
from server.observability.metrics_server import serve_metrics
from store.messages.commit_store import CommitStore
from tests.protocol.serving import PATIENCE, until
from tests.server.served_app import LIVE, SEND, App, ServeApp

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scrape(port: int) -> Samples:
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@asynccontextmanager
async def measured(serve_app: ServeApp, **settings: Any) -> AsyncIterator[tuple[App, Callable[..., Any]]]:
    """The application, and the growth of a sample since its start."""
    port = ports.pick_free()
    async with serve_app(metrics_port=port, **settings) as app:
        before = await scrape(port)

        async def grown(name: str, **labels: str) -> float:
            key = (name, frozenset(labels.items()))
            return (await scrape(port)).get(key, 0) - before.get(key, 0)

        yield app, grown


async def test_operations_are_counted_and_timed_by_field_and_code(serve_app: ServeApp) -> None:
    async with measured(serve_app) as (app, grown):
        await app.data("{ me { id } }", "bob")
        await app.data("query Mine { ...Me } fragment Me on Query { me { id } }", "bob")
        await app.data("{ me { id } totalUnread }", "bob")
        await app.ask('mutation { markRead(conversationId: "g_none") { id } }', "bob")
        await app.ask("{ nonsense }", "bob")
        await app.ask("{ me { id } }")
        socket = await app.signed_in("bob")
        await socket.subscribe("live", LIVE)
        await socket.receive()
        count = "confab_operations_total"
        assert await grown(count, field="me", kind="query", code="OK") == 2
        assert await grown(count, field="several", kind="query", code="OK") == 1
        assert await grown(count, field="markRead", kind="mutation", code="NOT_FOUND") == 1
        assert await grown(count, field="none", kind="none", code="INVALID_INPUT") == 1
        assert await grown(count, field="none", kind="none", code="UNAUTHENTICATED") == 1
        assert await grown(count, field="messageEvents", kind="subscription", code="OK") == 1
        assert await grown("confab_operation_seconds_count", field="me", kind="query") == 2
        assert await grown("confab_connections", of="websocket") == 1
        assert await grown("confab_subscriptions") == 1


async def test_message_is_counted_in_commits_round_trips_and_caches(serve_app: ServeApp) -> None:
    async with measured(serve_app) as (app, grown):
        await app.data("{ me { id } }", "bob")
        await app.data(SEND, "alice")
        await app.data(SEND, "alice")
        assert await grown("confab_commit_messages_count") == 2
        assert await grown("confab_commit_messages_sum") == 2
        assert await grown("confab_commit_seconds_count") == 2
        await app.data("{ sessions { totalUnread } }", "bob")
        await app.data("{ sessions { totalUnread } }", "bob")
        assert await grown("confab_cache_total", of="state", outcome="miss") == 1
        assert await grown("confab_cache_total", of="state", outcome="hit") == 2
        assert await grown("confab_round_trips_total", database="mongodb") >= 3
        assert await grown("confab_messages_waiting", stage="all") == 0


async def test_shed_operations_are_counted(serve_app: ServeApp) -> None:
    async with measured(serve_app, max_operations=1) as (app, grown):
        shedding = app.served.server.lifespan.state["confab.load_shedding"]
        assert isinstance(shedding.limit, int) and shedding.enter()
        assert (await app.ask("{ me { id } }", "alice")).status_code == 503
        shedding.leave()
        assert await grown("confab_shed_total", what="operation") == 1
        await until(lambda: sum(shedding.on_tick.__self__.counts))
        assert await grown("confab_loop_late_seconds_count") > 0


async def test_undelivered_message_increases_the_outbox_age(
    serve_app: ServeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = ports.pick_free()
    async with serve_app(metrics_port=port) as app:
        await app.data("{ me { id } }", "bob")
        age = ("confab_outbox_age_seconds", frozenset[tuple[str, str]]())
        monkeypatch.setattr("server.observability.metrics._AGE_CACHE_SECONDS", 0.0)
        # An age that cannot be read in time is omitted.
        monkeypatch.setattr("server.observability.metrics._AGE_TIMEOUT_SECONDS", PATIENCE)
        assert (await scrape(port))[age] == 0

        gate, commit = asyncio.Event(), CommitStore.commit

        async def later(self: CommitStore, *batch: Any, **how: Any) -> Any:
            await gate.wait()
            return await commit(self, *batch, **how)

        monkeypatch.setattr(CommitStore, "commit", later)
        sending = asyncio.create_task(app.ask(SEND, "alice"))
        async with asyncio.timeout(PATIENCE):
            while (await scrape(port))[age] <= 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        gate.set()
        assert "errors" not in (await sending).json()


async def test_workspaces_are_counted(serve_app: ServeApp) -> None:
    async with measured(serve_app) as (app, grown):
        created = await app.data('mutation { createWorkspace(input: {name: "Hikers"}) { id rev } }', "bob")
        workspace = created["createWorkspace"]["id"]
        create = f'createChannel(input: {{workspaceId: "{workspace}", name: "trails"}}) {{ id rev }}'
        place = (await app.data(f"mutation {{ {create} }}", "bob"))["createChannel"]
        await app.data(
            f'mutation {{ sendMessage(input: {{conversationId: "{place["id"]}", content: "hi"}}) {{ replayed }} }}',
            "bob",
        )
        live = "subscription ($at: [Position!]!) { channelEvents(channels: $at) { __typename } }"
        socket = await app.signed_in("bob")
        for number, rev in enumerate((None, place["rev"], 1)):
            await socket.subscribe(f"live{number}", live, variables={"at": [{"id": place["id"], "rev": rev}]})
            while (await socket.receive())["id"] != f"live{number}":
                pass
        assert await grown("confab_clock_resumes_total", outcome="reset") == 1
        assert await grown("confab_clock_resumes_total", outcome="resumed") == 1
        assert await grown("confab_clock_subscriptions", of="workspaces") == 3
        assert await grown("confab_workspaces_watched") == 1
        assert await grown("confab_clock_events_total", kind="message") == 1
        assert await grown("confab_clock_events_total", kind="workspace") >= 1
        assert await grown("confab_policy_change_seconds_count") == 1
        assert await grown("confab_policy_change_seconds_sum") > 0
        for failure in ("confab_policy_changes_failed_total", "confab_policy_changes_incomplete"):
            assert await grown(failure) == 0


async def test_users_whose_presence_is_shown_are_counted(serve_app: ServeApp) -> None:
    async with measured(serve_app) as (app, grown):
        socket = await app.signed_in("bob")
        await socket.subscribe("live", 'subscription { presenceEvents(userIds: ["bob", "stranger"]) { status } }')
        await socket.receive()
        assert await grown("confab_presence_watched") == 1
        # The first device of a user without a record is announced to all servers.
        assert await grown("confab_presence_frames_total") <= 1


async def test_labels_contain_only_known_values(serve_app: ServeApp) -> None:
    port = ports.pick_free()
    async with serve_app(metrics_port=port) as app:
        await app.data("{ me { id } }", "bob")
        await app.data(SEND.replace("mutation {", "mutation NameOfAnOperation {"), "alice")
        await app.ask("{ " + " ".join(f"nonsense{number}" for number in range(5)) + " }", "alice")
        samples = await scrape(port)
    values = {value for _, labels in samples for _, value in labels}
    assert not {value for value in values if re.search("alice|bob|p_|NameOfAnOperation|nonsense", value)}
    root_types = (SCHEMA._schema.query_type, SCHEMA._schema.mutation_type, SCHEMA._schema.subscription_type)
    known = {name for root in root_types if root is not None for name in root.fields} | {"several", "none"}
    fields = {value for _, labels in samples for name, value in labels if name == "field"}
    assert {"me", "sendMessage"} < fields <= known


async def test_metrics_are_served_on_their_own_port_only(serve_app: ServeApp) -> None:
    port = ports.pick_free()
    async with serve_app(metrics_port=port) as app, httpx.AsyncClient(timeout=PATIENCE) as client:
        assert (await app.http.get("/metrics")).status_code == 404
        assert (await client.get(f"http://127.0.0.1:{port}/graphql")).status_code == 404
        assert (await client.post(f"http://127.0.0.1:{port}/metrics")).status_code == 405
    async with serve_app():
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_metrics_can_ask_for_a_token(serve_app: ServeApp) -> None:
    port, token = ports.pick_free(), "a-token-of-prometheus"
    async with serve_app(metrics_port=port, metrics_token=token), httpx.AsyncClient(timeout=PATIENCE) as client:

        async def scrape(authorization: str | None) -> httpx.Response:
            headers = {} if authorization is None else {"Authorization": authorization}
            return await client.get(f"http://127.0.0.1:{port}/metrics", headers=headers)

        for wrong in (None, "", token, "Bearer", f"Bearer {token}x", f"Basic {token}"):
            refused = await scrape(wrong)
            assert refused.status_code == 401, wrong
            assert "confab_" not in refused.text
            assert refused.headers["www-authenticate"] == "Bearer"
        for right in (f"Bearer {token}", f"bearer   {token}"):
            assert (await scrape(right)).status_code == 200


async def test_invalid_metrics_port_does_not_stop_the_server() -> None:
    nothing: Any = None
    async with serve_metrics(nothing, "127.0.0.1", 65536, 1) as port:
        assert port == 0


async def test_each_process_takes_its_own_metrics_port() -> None:
    class Nothing:
        async def text(self) -> bytes:
            return b"nothing\n"

    nothing: Metrics = Nothing()  # type: ignore[assignment]
    port = ports.pick_free()
    with capture_logs() as logs:
        async with (
            serve_metrics(nothing, "127.0.0.1", port, 2) as first,
            serve_metrics(nothing, "127.0.0.1", port, 2) as second,
            serve_metrics(nothing, "127.0.0.1", port, 2) as third,
        ):
            assert (first, third) == (port, 0)
            assert second in (port + 1, 0)
    assert "metrics_not_served" in [line["event"] for line in logs]


async def test_a_process_takes_a_metrics_port_that_becomes_free() -> None:
    class Nothing:
        async def text(self) -> bytes:
            return b"nothing\n"

    nothing: Metrics = Nothing()  # type: ignore[assignment]
    port = ports.pick_free()
    async with AsyncExitStack() as stack, httpx.AsyncClient(timeout=PATIENCE) as client:
        async with serve_metrics(nothing, "127.0.0.1", port, 1) as first:
            assert first == port
            assert await stack.enter_async_context(serve_metrics(nothing, "127.0.0.1", port, 1)) == 0
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get(f"http://127.0.0.1:{port}/metrics")).text == "nothing\n":
                        break
                await asyncio.sleep(0.05)
