"""Devices of one user on different server processes, without sticky sessions, see the same events in the same order.

It is the order of the user's log. It may differ from the order of seqs if several processes commit messages at the
same time: clients sort by seq.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx
import pytest

from tests.processes import ServerProcess, token
from tests.waiting import wait_for
from tests.workers.conftest import ServeWorkers
from tests.workers.device import LIVE, PATIENCE, SEND, SYNC, Device, Refused, connected
from tests.workers.processes import worker_of_ports, worker_pids

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

WORKERS = 3
DEVICES = 12

PRESENCE = "subscription ($ids: [ID!]!) { presenceEvents(userIds: $ids) { status user { id } } }"
READ = "mutation ($id: ID!, $seq: Int!) { markRead(conversationId: $id, upToSeq: $seq) { readSeq } }"
TYPING = "mutation ($id: ID!) { startTyping(conversationId: $id) }"
RENEW = "mutation ($token: String!) { renewAuth(token: $token) }"
CREATE = """mutation ($input: CreateUploadInput!) { createUpload(input: $input) {
    id url method headers { name value } } }"""
COMPLETE = "mutation ($id: ID!) { completeUpload(uploadId: $id) { id } }"
ATTACHED = "query ($id: ID!) { message(id: $id) { attachments { url } } }"


async def workers_of(server: ServerProcess, devices: Sequence[Device]) -> list[int]:
    """Return the worker that has the connection of each device."""
    async with asyncio.timeout(PATIENCE):
        while True:
            workers = worker_of_ports(worker_pids(server.pid), server.port)
            found = [workers.get(device.local_port) for device in devices]
            known = [worker for worker in found if worker is not None]
            if len(known) == len(devices):
                return known
            # The system's list of connections may lack some if connections change while it is read.
            await asyncio.sleep(0.05)


async def reconnect(devices: Sequence[Device]) -> None:
    for device in devices:
        await device.disconnect()
    await wait_for(lambda: all(device.caught_up.is_set() for device in devices), PATIENCE)


async def spread(server: ServerProcess, devices: Sequence[Device]) -> None:
    """Let devices connect again until each worker has at least two of them."""
    async with asyncio.timeout(PATIENCE):
        while True:
            workers = await workers_of(server, devices)
            counts = Counter(workers)
            if len(counts) == WORKERS and min(counts.values()) >= 2:
                return
            (most, _), *_ = counts.most_common()
            await reconnect([device for device, worker in zip(devices, workers, strict=True) if worker == most][:3])


async def request(server: ServerProcess, user: str, query: str, **variables: Any) -> Any:
    """Execute an operation by HTTP on a connection of its own, which any worker may get."""
    async with server.client(user, timeout=PATIENCE) as client:
        answer = (await client.post("/graphql", json={"query": query, "variables": variables})).json()
    assert "errors" not in answer, answer
    (value,) = answer["data"].values()
    return value


async def until_event(devices: Sequence[Device], kind: str, content: str, within: float = PATIENCE) -> None:
    await wait_for(lambda: all((kind, content) in device.events for device in devices), within)


async def test_devices_on_different_workers_see_everything_in_one_order(serve_workers: ServeWorkers) -> None:
    async with serve_workers(WORKERS) as server, connected(server, *["alice", "bob"] * DEVICES) as devices:
        alice, bob = devices[::2], devices[1::2]
        await spread(server, alice)
        await spread(server, bob)
        sent = await send_from_everywhere(alice, "bob", "first")
        conversation = sent[0]["conversationId"]
        for of_user in (alice, bob):
            await same_events(of_user, sent)
            # They were connected all the time.
            assert len({tuple(device.contents()) for device in of_user}) == 1

        await bob[0].ask(READ, id=conversation, seq=len(sent))
        await until_event(alice, "ReceiptAdvanced", f"bob READ {len(sent)}")
        await typing_reaches_every_worker(alice[0], bob, conversation)
        await sessions_reach_every_worker(server, bob, conversation)
        await presence_reaches_every_worker(server, bob)

        await resume_elsewhere(server, bob, alice)
        renewed = await asyncio.gather(*(device.ask(RENEW, token=token(device.user)) for device in devices))
        assert all(renewed)
        await until_streams_have_a_message(server, alice[0])
        await files_are_served_by_every_worker(server, conversation)


async def send_from_everywhere(senders: Sequence[Device], to: str, text: str) -> list[dict[str, Any]]:
    """Send two messages from each device at the same time. Returns them in order."""
    answers = await asyncio.gather(
        *(
            device.ask(SEND, input={"toUserId": to, "content": f"{text} {number} {turn}"})
            for number, device in enumerate(senders)
            for turn in range(2)
        )
    )
    return sorted((answer["message"] for answer in answers), key=lambda message: int(message["seq"]))


async def same_events(devices: Sequence[Device], sent: Sequence[dict[str, Any]]) -> None:
    """Wait until every device has the messages, and check that each came once."""
    contents = {message["content"] for message in sent}
    await wait_for(lambda: all(contents <= set(device.contents()) for device in devices), PATIENCE)
    for device in devices:
        received = [content for content in device.contents() if content in contents]
        assert len(received) == len(contents)


async def typing_reaches_every_worker(alice: Device, bob: Sequence[Device], conversation: str) -> None:
    """Announce typing until all devices have seen it: a device that misses an announcement gets only the next one.

    The next announcement is sent three seconds later at the earliest.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            await alice.ask(TYPING, id=conversation)
            with suppress(TimeoutError):
                await until_event(bob, "TypingStarted", "alice", within=5.0)
                return


async def sessions_reach_every_worker(server: ServerProcess, bob: Sequence[Device], conversation: str) -> None:
    """A change on one device reaches the session subscriptions of the others."""
    changes: list[set[str]] = [set() for _ in bob]
    for device, reasons in zip(bob, changes, strict=True):
        await device.listen(SYNC, lambda data, reasons=reasons: reasons.add(data["syncSession"]["reason"]))  # type: ignore[misc]
    await wait_for(lambda: all("CATCH_UP" in reasons for reasons in changes), PATIENCE)
    await bob[-1].ask("mutation ($id: ID!) { setUnread(conversationId: $id) { readSeq } }", id=conversation)
    await wait_for(lambda: all(len(reasons) > 1 for reasons in changes), PATIENCE)


async def presence_reaches_every_worker(server: ServerProcess, bob: Sequence[Device]) -> None:
    """A user who connects to one worker is seen on all."""
    await request(server, "carol", SEND, input={"toUserId": "bob", "content": "from carol"})
    seen: list[list[str]] = [[] for _ in bob]
    for device, statuses in zip(bob, seen, strict=True):
        await device.listen(
            PRESENCE,
            lambda data, statuses=statuses: statuses.append(data["presenceEvents"]["status"]),  # type: ignore[misc]
            ids=["carol"],
        )
    async with connected(server, "carol"):
        await wait_for(lambda: all("ONLINE" in statuses for statuses in seen), PATIENCE)


async def resume_elsewhere(server: ServerProcess, bob: Sequence[Device], alice: Sequence[Device]) -> None:
    """Devices that connect to another worker receive what they missed, each message once."""
    before = await workers_of(server, bob)
    for device in bob[1:]:
        await device.disconnect()
    sent = await send_from_everywhere(alice, "bob", "missed")
    await wait_for(lambda: all(device.caught_up.is_set() for device in bob), PATIENCE)
    while await workers_of(server, bob) == before:
        await reconnect(bob[1:])
    await same_events(bob, sent)


async def until_streams_have_a_message(server: ServerProcess, alice: Device) -> None:
    """Event streams on several workers receive a message that was sent on another connection."""
    async with AsyncExitStack() as stack:
        streams = []
        for _ in range(2 * WORKERS):
            client = await stack.enter_async_context(server.client("bob", timeout=PATIENCE))
            accept = {"accept": "text/event-stream"}
            stream = await stack.enter_async_context(
                client.stream("POST", "/graphql", json={"query": LIVE}, headers=accept)
            )
            streams.append(stream.aiter_lines())
        for lines in streams:
            await line_with(lines, "CaughtUp")
        await alice.ask(SEND, input={"toUserId": "bob", "content": "by stream"})
        for lines in streams:
            await line_with(lines, "by stream")


async def line_with(lines: Any, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        async for line in lines:
            if text in line:
                return
    raise AssertionError("the stream ended")


async def files_are_served_by_every_worker(server: ServerProcess, conversation: str) -> None:
    """An upload is created, received and completed on any workers, and downloaded from any."""
    described = {"filename": "a.txt", "sizeBytes": 5, "contentType": "text/plain", "conversationId": conversation}
    upload = await request(server, "alice", CREATE, input=described)
    headers = {header["name"]: header["value"] for header in upload["headers"]}
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        received = await client.request(upload["method"], upload["url"], content=b"hello", headers=headers)
    assert received.status_code == 204
    attachment = (await request(server, "alice", COMPLETE, id=upload["id"]))["id"]
    message = await request(
        server, "alice", SEND, input={"toUserId": "bob", "content": "a file", "attachmentIds": [attachment]}
    )
    (shown,) = (await request(server, "bob", ATTACHED, id=message["message"]["id"]))["attachments"]
    for _ in range(4 * WORKERS):
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            assert (await client.get(shown["url"])).content == b"hello"


async def test_rate_limits_count_what_other_workers_allowed(serve_workers: ServeWorkers) -> None:
    # Each worker allows half of a minute's messages at once: 3. They cost 10 s each.
    async with (
        serve_workers(WORKERS, sends_per_minute="6") as server,
        connected(server, *["alice"] * DEVICES) as devices,
    ):
        await spread(server, devices)
        workers = await workers_of(server, devices)
        await request(server, "bob", "{ me { id } }")
        began = time.monotonic()
        waits = await asyncio.gather(*(attempt(device) for device in devices for _ in range(4)))
        allowed_later = WORKERS * int((time.monotonic() - began) / 10)
        assert 3 <= waits.count(0) <= 3 * WORKERS + 1 + allowed_later
        workers_that_count = set[int]()
        async with asyncio.timeout(PATIENCE):
            while len(workers_that_count) < WORKERS:
                # Alone, a worker never asks a user to wait for longer than 10 s.
                workers_that_count |= {
                    worker for device, worker in zip(devices, workers, strict=True) if await attempt(device) > 11_000
                }


async def attempt(device: Device) -> int:
    """Send a message. Returns 0, or the milliseconds after which it may be tried again."""
    try:
        await device.ask(SEND, input={"toUserId": "bob", "content": "hello"})
    except Refused as refused:
        assert refused.code == "RATE_LIMITED"
        return refused.retry_after_ms
    return 0
