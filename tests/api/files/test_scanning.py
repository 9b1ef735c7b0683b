"""Files and the virus scanner: accepted, rejected, or waiting for an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from resolvers.files.inspection.scanner import Scanner
from subscriptions.delivery.files.pending_scans import PendingScans
from tests.api.client import Api, private_id
from tests.api.files.calls import blob_names, complete, find_file, upload_file
from tests.files.inspection.clamd import EICAR, FakeClamd, running_clamd


@pytest.fixture
async def clamd(api: Api) -> AsyncIterator[FakeClamd]:
    """The scanner of the deployment during a test."""
    inspector = api.services.app.inspector
    async with running_clamd() as clamd:
        inspector.scanner = Scanner(clamd.url)
        yield clamd
    inspector.scanner = None


def pending(api: Api, clamd: FakeClamd) -> PendingScans:
    return PendingScans(api.services.app.store, Scanner(clamd.url).accepts)


@pytest.mark.parametrize(("content", "state"), [(b"harmless", "READY"), (EICAR, "REJECTED")])
async def test_scanner_decides_when_the_upload_is_completed(
    api: Api, clamd: FakeClamd, content: bytes, state: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    done = await upload_file(api, alice, private_id(alice, bob), content)
    assert (done["state"], done["url"] is not None) == (state, state == "READY")
    assert clamd.received == [content]


@pytest.mark.parametrize(("content", "state"), [(b"harmless", "READY"), (EICAR, "REJECTED")])
async def test_file_waits_for_a_scanner_that_does_not_answer(
    api: Api, clamd: FakeClamd, content: bytes, state: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    clamd.answer = b"ERROR\0"
    waiting = await upload_file(api, alice, private_id(alice, bob), content)
    assert (waiting["state"], waiting["url"]) == ("SCANNING", None)
    assert await complete(api, alice, waiting["id"]) == waiting
    assert await pending(api, clamd).continue_due() == 0
    assert await find_file(api, alice, waiting["id"]) == waiting
    clamd.answer = None
    assert await pending(api, clamd).continue_due() == 1
    settled = await find_file(api, alice, waiting["id"])
    assert settled is not None
    assert (settled["state"], settled["url"] is not None) == (state, state == "READY")
    assert await pending(api, clamd).continue_due() == 0


async def test_file_that_is_always_refused_delays_no_other(api: Api, clamd: FakeClamd) -> None:
    alice, bob = await api.create_users("alice", "bob")
    clamd.answer = b"ERROR\0"
    files = [await upload_file(api, alice, private_id(alice, bob), b"x" * size) for size in (2000, 10)]
    clamd.answer, clamd.max_bytes = None, 1000
    assert await pending(api, clamd).continue_due() == 1
    states = [(await find_file(api, alice, file["id"]) or {})["state"] for file in files]
    assert states == ["SCANNING", "READY"]


async def test_without_a_scanner_a_waiting_file_is_not_accepted(api: Api, clamd: FakeClamd) -> None:
    alice, bob = await api.create_users("alice", "bob")
    clamd.answer = b"ERROR\0"
    waiting = await upload_file(api, alice, private_id(alice, bob))
    assert await PendingScans(api.services.app.store, None).continue_due() == 0
    assert await find_file(api, alice, waiting["id"]) == waiting
    assert any(name.startswith(f"{waiting['id'][2:]}/") for name in blob_names(api))
