"""Distinct connections mode of npm graphql-sse: each operation has its own event stream."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from resolvers.base.errors import Unauthenticated
from resolvers.users.callers import Caller
from server.http.request import parse_accept
from server.http.uvicorn_protocol import ABORT_EXTENSION
from server.sse.stream import StreamLimits
from subscriptions.transport.engine import Json, RequestRefused, StreamEnded
from tests.server.sse_peer import SSEPeer
from tests.server.tokens import NOW, bearer

LIVE = {"query": "subscription {events}"}
EVENT = "text/event-stream"


def refusal(code: str) -> list[Json]:
    return [{"message": "no", "extensions": {"code": code, "retryable": False}}]


async def opened(side: Any, body: Any = LIVE, **headers: str) -> SSEPeer:
    """Start a subscription, and wait for the first bytes."""
    peer = SSEPeer(side.app, body, authorization=bearer(), **headers)
    await peer.until(lambda: peer.chunks)
    return peer


def limits(**changes: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("side", [StreamLimits(**{"end_delay_seconds": 0.0, **changes})], indirect=True)


async def test_responses_are_next_events_followed_by_complete(side: Any) -> None:
    peer = await opened(side)
    assert (peer.status, peer.body) == (200, b":\n\n"), "proxies forward the headers with the first bytes"
    assert peer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert peer.headers["cache-control"] == "no-store"
    assert peer.headers["x-accel-buffering"] == "no"
    (stream,) = side.engine.streams
    stream.put(b'{"data":1}', b'{"data":2}')
    stream.put(StreamEnded())
    await peer.ended()
    assert peer.body == (
        b':\n\nevent: next\ndata: {"data":1}\n\nevent: next\ndata: {"data":2}\n\nevent: complete\ndata:\n\n'
    )
    assert peer.over and stream.closed


async def test_get_starts_a_subscription(side: Any) -> None:
    peer = SSEPeer(side.app, parameters=LIVE, authorization=bearer())
    await peer.until(lambda: side.engine.streams)
    side.engine.streams[0].put(b"{}", StreamEnded())
    await peer.ended()
    assert peer.events == [("next", {}), ("complete", None)]


@pytest.mark.parametrize("kind", ["query", "mutation"])
async def test_queries_and_mutations_give_one_event(side: Any, kind: str) -> None:
    big = 2**70
    side.engine.result = lambda: {"data": {"n": big}}
    peer = SSEPeer(side.app, {"query": f"{kind} {{ok}}"}, authorization=bearer())
    await peer.ended()
    assert peer.events == [("next", {"data": {"n": big}}), ("complete", None)]
    assert peer.over


async def test_get_does_not_run_a_mutation(side: Any) -> None:
    peer = SSEPeer(side.app, parameters={"query": "mutation {ok}"}, authorization=bearer())
    await peer.ended()
    assert (peer.status, peer.headers["allow"]) == (405, "POST")
    assert not side.engine.executed


@pytest.mark.parametrize(
    ("accept", "accepts", "prefers"),
    [
        (EVENT, True, True),
        (f"{EVENT}, multipart/mixed", True, True),
        (f"*/*, {EVENT}", True, True),
        (f"application/json, {EVENT}", True, False),
        (f"application/graphql-response+json, {EVENT};q=0.9", True, False),
        (f"application/json;q=0.9, {EVENT}", True, True),
        (f"{EVENT};q=0", False, False),
        ("text/*", False, False),
        ("*/*", False, False),
    ],
)
def test_events_must_be_accepted_by_name(accept: str, accepts: bool, prefers: bool) -> None:
    found = parse_accept(accept)
    assert (found.accepts_events, found.prefers_events) == (accepts, prefers)


async def test_client_that_accepts_both_gets_events_for_subscriptions(side: Any) -> None:
    accept = f"application/json, {EVENT}"
    response = await side.post({"query": "{ok}"}, accept=accept)
    assert (response.status_code, response.json()) == (200, {"data": {"ok": True}})
    peer = await opened(side, accept=accept)
    assert peer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (await side.post(LIVE, accept="application/json", authorization=bearer())).status_code == 400
    head = SSEPeer(side.app, method="HEAD", parameters=LIVE, accept=accept, authorization=bearer())
    await head.until(lambda: head.chunks)
    assert head.status == 400, "a response to HEAD would not end"
    assert len(side.engine.streams) == 1


# Failures


async def test_refusal_is_the_single_response(side: Any) -> None:
    side.engine.not_subscribed = refusal("NOT_FOUND")
    peer = await opened(side)
    await peer.ended()
    assert peer.events == [("next", {"errors": side.engine.not_subscribed}), ("complete", None)]
    side.engine.refusal = refusal("INVALID_INPUT")
    peer = await opened(side, {"query": "nonsense"})
    await peer.ended()
    assert peer.events == [("next", {"errors": side.engine.refusal}), ("complete", None)]
    assert not side.engine.streams and not side.engine.executed and not side.streams.count


@pytest.mark.parametrize(("code", "status"), [("UNAUTHENTICATED", 401), ("RATE_LIMITED", 429), ("UNAVAILABLE", 503)])
async def test_temporary_failure_has_an_error_status(side: Any, code: str, status: int) -> None:
    side.engine.not_subscribed = refusal(code)
    response = await side.post(LIVE, accept=EVENT, authorization=bearer())
    assert (response.status_code, side.code(response)) == (status, code)
    assert not side.streams.count


async def test_invalid_token_and_request_have_an_error_status(side: Any) -> None:
    response = await side.post(LIVE, accept=EVENT, authorization=bearer(exp=NOW - 60))
    assert (response.status_code, side.code(response)) == (401, "UNAUTHENTICATED")
    response = await side.post({"query": 7}, accept=EVENT, authorization=bearer())
    assert (response.status_code, side.code(response)) == (400, "INVALID_INPUT")
    assert not side.engine.streams


async def test_failed_subscription_sends_the_error_and_complete(side: Any) -> None:
    peer = await opened(side)
    side.engine.streams[0].put(b"{}", RequestRefused(refusal("UNAVAILABLE")))
    await peer.ended()
    assert peer.events == [("next", {}), ("next", {"errors": refusal("UNAVAILABLE")}), ("complete", None)]
    assert side.engine.streams[0].closed


async def test_defect_is_internal_and_contains_only_a_correlation_id(side: Any) -> None:
    peer = await opened(side, x_request_id="find-me")
    side.engine.streams[0].put(RuntimeError("password=hunter2"))
    await peer.ended()
    assert [name for name, _ in peer.events] == ["next", "complete"]
    extensions = peer.events[0][1]["errors"][0]["extensions"]
    assert extensions == {"code": "INTERNAL", "retryable": False, "correlationId": "find-me"}
    assert b"hunter2" not in peer.body
    assert side.engine.streams[0].closed


# The end of a stream


async def test_disconnect_ends_subscriptions_and_queries_not_mutations(side: Any) -> None:
    side.engine.gate = asyncio.Event()
    peers = [await opened(side, {"query": f"{kind} {{ok}}"}) for kind in ("query", "mutation", "subscription")]
    for peer in peers:
        peer.leave()
        await peer.ended()
        assert not peer.over
    assert side.engine.streams[0].closed and not side.streams.count
    side.engine.gate.set()
    await side.endpoint.drain()
    assert [request.query for request, _ in side.engine.executed] == ["query {ok}", "mutation {ok}"]
    assert side.engine.finished == 1


async def test_stream_ends_without_complete_when_the_token_expires(side: Any, clock: Any) -> None:
    peer = SSEPeer(side.app, LIVE, authorization=bearer(exp=NOW + 1))
    clock.now = NOW + 0.98
    await peer.until(lambda: peer.chunks)
    side.engine.streams[0].put(b"{}")
    await peer.next()
    clock.now = NOW + 1
    await peer.ended()
    assert peer.over and peer.events == [("next", {})]
    assert side.engine.streams[0].closed


async def test_streams_with_invalid_tokens_can_be_ended(side: Any) -> None:
    alice = await opened(side)
    bob = SSEPeer(side.app, LIVE, authorization=bearer(sub="bob"))
    await bob.until(lambda: bob.chunks)
    side.streams.end_where(lambda caller: caller.user_id == "alice")
    await alice.ended()
    assert alice.over and alice.events == []
    side.engine.streams[1].put(b"{}")
    assert await bob.next() == ("next", {})


async def test_token_is_checked_again_when_the_stream_begins(side: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Caller) -> None:
        raise Unauthenticated("The token was revoked.")

    monkeypatch.setattr(side.streams, "_check", refuse)
    peer = await opened(side)
    assert (peer.status, b"UNAUTHENTICATED" in peer.body) == (401, True)
    assert not side.engine.streams and not side.streams.count


@limits(drain_seconds=0.02, drain_batch=1, drain_pause_seconds=0.01)
async def test_stopping_server_ends_streams_and_starts_none(side: Any) -> None:
    peers = [await opened(side) for _ in range(5)]
    await side.streams.drain()
    for peer in peers:
        await peer.ended()
        assert peer.over and peer.events == []
    assert all(stream.closed for stream in side.engine.streams)
    late = await opened(side)
    assert (late.status, b"UNAVAILABLE" in late.body) == (503, True)
    assert len(side.engine.streams) == 5


@limits(end_delay_seconds=0.5)
async def test_queries_are_answered_before_the_stream_ends(side: Any) -> None:
    side.engine.gate = asyncio.Event()
    peer, live = await opened(side, {"query": "mutation {ok}"}), await opened(side)
    draining = asyncio.create_task(side.streams.drain())
    await asyncio.sleep(0.01)
    side.engine.gate.set()
    side.engine.streams[0].put(b"{}")
    await peer.until(lambda: peer.events)
    assert peer.events == [("next", {"data": {"ok": True}}), ("complete", None)]
    assert side.engine.streams[0].closed and not peer.over and not live.over
    await draining
    assert peer.over and live.over and live.events == []


# Limits


@limits(keep_alive_seconds=0.02)
async def test_idle_stream_sends_comments(side: Any) -> None:
    peer = await opened(side)
    await peer.until(lambda: len(peer.chunks) >= 4)
    assert peer.body == b":\n\n" * len(peer.chunks)


@limits(send_timeout_seconds=0.05)
async def test_client_that_does_not_read_is_disconnected(side: Any) -> None:
    aborted: list[bool] = []
    peer = SSEPeer(side.app, LIVE, authorization=bearer(), extensions={ABORT_EXTENSION: lambda: aborted.append(True)})
    await peer.until(lambda: peer.chunks)
    peer.take_nothing()
    (stream,) = side.engine.streams
    stream.put(*[b"x" * 10_000] * 100)
    await peer.ended()
    assert aborted and not peer.over
    assert stream.closed and len(stream.left) > 90
    assert not side.streams.count


@limits(send_timeout_seconds=120, close_timeout_seconds=0.02)
async def test_client_that_does_not_read_does_not_delay_the_end(side: Any) -> None:
    peer = await opened(side)
    peer.take_nothing()
    side.engine.streams[0].put(b"{}")
    await asyncio.sleep(0.01)
    async with asyncio.timeout(30):
        await side.streams.drain()
    await peer.ended()


@limits(max_streams=3, max_streams_per_user=2)
async def test_streams_are_limited_per_user_and_process(side: Any) -> None:
    first, _ = await opened(side), await opened(side)
    for query in ("subscription {events}", "mutation {ok}"):
        response = await side.post({"query": query}, accept=EVENT, authorization=bearer())
        assert (response.status_code, side.code(response)) == (429, "RATE_LIMITED")
    bob = SSEPeer(side.app, LIVE, authorization=bearer(sub="bob"))
    await bob.until(lambda: bob.chunks)
    response = await side.post(LIVE, accept=EVENT, authorization=bearer(sub="carol"))
    assert (response.status_code, side.code(response)) == (503, "UNAVAILABLE")
    assert not side.engine.executed and len(side.engine.streams) == 3
    first.leave()
    await first.ended()
    assert (await opened(side)).status == 200
