"""A server may die at every write of an export: another one makes it again, and no bytes are left without a row."""

from __future__ import annotations

import asyncio

import pytest

from resolvers.jobs.job_worker import JobWorker
from store.base.ids import UserId
from store.jobs.job import JobKind
from tests.api.client import Api, private_id
from tests.api.export.calls import Zip, begin, find, get
from tests.api.export.test_exporting import blobs_of, files_of, sweep
from tests.api.files.calls import blob_names, rows, upload_file
from tests.api.files.dying_server import Death, dying, mortal
from tests.clock import ManualClock
from tests.waiting import TIMEOUT_SECONDS

CONTENT = bytes(range(256)) * 4096
"""A megabyte: four chunks."""


def end_leases(api: Api) -> None:
    api.database["jobs"].update_many({"d": {"$gt": 0}}, {"$set": {"d": 1}})


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_a_server_may_die_at_every_write(
    api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    died = 0
    with mortal(api.services.app.store.mongo, monkeypatch):
        for step in range(1, 100):
            ann, bob = await api.create_users("ann", "bob")
            await api.send(ann, bob)
            file = await upload_file(api, ann, private_id(ann, bob), CONTENT)
            begun, death = await begin(api, ann), Death(step, after=after)
            with dying(death):
                await api.services.job_worker.run_due()
            assert blob_names(api) <= {name for row in rows(api) for name in row["b"]}
            end_leases(api)
            await api.services.job_worker.run_due()
            found = await find(api, ann, begun["id"])
            assert found is not None and found["state"] == "DONE"
            zip = Zip((await get(api, found["url"])).content)
            assert len(zip.lines("messages")) == 1
            assert zip.read(zip.lines("files")[0]["path"]) == CONTENT and zip.lines("files")[0]["id"] == file["id"]
            await api.advance_days(clock, 0.2)
            await sweep(api)
            assert len(files_of(api, ann)) == len(blobs_of(api, ann)) == 2, "the upload, and one export"
            if not death.is_dead:
                break
            died += 1
    assert died > 8


async def test_a_server_that_lost_its_job_stops_writing(
    api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.jobs.job_worker._RENEWAL_SECONDS", 0.01)
    (ann,) = await api.create_users("ann")
    begun, store = await begin(api, ann), api.services.app.store
    held, original = asyncio.Event(), store.blobs.write_long

    async def hold(name, content):  # type: ignore[no-untyped-def]
        held.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(store.blobs, "write_long", hold)
    losing = asyncio.create_task(api.services.job_worker.run_due())
    await held.wait()
    monkeypatch.setattr(store.blobs, "write_long", original)
    other = JobWorker(store.jobs, {JobKind.EXPORT: api.services.job_worker._kinds[JobKind.EXPORT]})
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await other.run_due():
            end_leases(api)
        await losing
    found = await find(api, ann, begun["id"])
    assert found is not None and found["state"] == "DONE"
    await api.advance_days(clock, 0.2)
    await sweep(api)
    (file,) = files_of(api, ann)
    assert UserId(file["o"]) == ann and len(blobs_of(api, ann)) == 1
