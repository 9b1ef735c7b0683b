"""Exports: one at a time, once a day, seen by their owner only, and gone after seven days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from resolvers.export.section import Exported, ExportSection, Record
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.jobs.job import JobKind, JobState
from tests.api.client import Api, Refusal
from tests.api.export.calls import BEGIN, Zip, begin, export, find, get
from tests.api.files.calls import CANCEL, blob_names, rows
from tests.clock import DAY_MS, ManualClock

LIMITED = Refusal("RATE_LIMITED", retryable=True)


async def sweep(api: Api) -> None:
    while await api.services.housekeeper.files.sweep():
        pass


def files_of(api: Api, user: str) -> list[Any]:
    return [row for row in rows(api) if row["o"] == user]


def blobs_of(api: Api, user: str) -> set[str]:
    return {name for row in files_of(api, user) for name in row["b"]} & blob_names(api)


async def test_an_export_is_waiting_first_and_then_has_an_address_for_seven_days(api: Api, clock: ManualClock) -> None:
    (ann,) = await api.create_users("ann")
    begun = await begin(api, ann)
    assert begun == {"id": begun["id"], "state": "WAITING", "url": None, "expiresAt": None}
    await api.services.job_worker.run_due()
    found = await find(api, ann, begun["id"])
    assert found is not None and found["state"] == "DONE"
    job = await api.services.app.store.jobs.find(begun["id"])
    assert job is not None and job.progress["expires"] == clock.ms + 7 * DAY_MS
    assert found["expiresAt"] is not None
    answer = await get(api, found["url"])
    assert answer.status_code == 200 and Zip(answer.content).names
    assert answer.headers["content-disposition"].startswith('attachment; filename="export-2')
    assert answer.headers["x-content-type-options"] == "nosniff"
    part = await get(api, found["url"], range="bytes=0-3")
    assert (part.status_code, part.content) == (206, answer.content[:4])


async def test_exporting_twice_at_once_answers_the_same_export(api: Api) -> None:
    (ann,) = await api.create_users("ann")
    answers = await asyncio.gather(*(begin(api, ann) for _ in range(4)))
    assert len({answer["id"] for answer in answers}) == 1
    store = api.services.app.store
    taken = await store.jobs.lease([JobKind.EXPORT])
    assert taken is not None
    assert await begin(api, ann) == answers[0] | {"state": "RUNNING"}
    await store.jobs.give_back(taken, 0)
    assert await api.services.job_worker.run_due() == 1


async def test_a_second_export_is_refused_for_a_day(api: Api, clock: ManualClock) -> None:
    ann, bob = await api.create_users("ann", "bob")
    first = await export(api, ann)
    before = await api.stored_documents()
    assert await api.expect_refusal(ann, BEGIN) == LIMITED
    assert await api.stored_documents() == before
    await export(api, bob)
    await api.advance_days(clock, 1)
    second = await export(api, ann)
    assert second["id"] != first["id"]
    assert await find(api, ann, first["id"]) is not None, "the first one is kept for its seven days"


async def test_only_its_owner_sees_an_export(api: Api) -> None:
    ann, bob = await api.create_users("ann", "bob")
    done = await export(api, ann)
    before = await api.stored_documents()
    assert await find(api, bob, done["id"]) is None
    for id in ("1", "x", "", "0" * 200):
        assert await find(api, ann, id) is None
    assert await api.stored_documents() == before


async def test_the_address_is_valid_for_an_hour_and_can_be_renewed(api: Api, clock: ManualClock) -> None:
    (ann,) = await api.create_users("ann")
    done = await export(api, ann)
    await api.advance_days(clock, 0.5)
    assert (await get(api, done["url"])).status_code == 403
    again = await find(api, ann, done["id"])
    assert again is not None and (await get(api, again["url"])).status_code == 200


async def test_nothing_is_left_after_seven_days(api: Api, clock: ManualClock) -> None:
    (ann,) = await api.create_users("ann")
    done = await export(api, ann)
    await api.advance_days(clock, 6.999)
    await sweep(api)
    late = await find(api, ann, done["id"])
    assert late is not None and (await get(api, late["url"])).status_code == 200
    await api.advance_days(clock, 0.001)
    assert await find(api, ann, done["id"]) is None
    assert (await get(api, late["url"])).status_code == 404, "the sweeper has not come yet"
    await sweep(api)
    assert files_of(api, ann) == [] and blobs_of(api, ann) == set()
    row = api.database["jobs"].find_one({"_id": done["id"]})
    assert row is not None and row["until"].timestamp() * 1000 == row["ft"] + 8 * DAY_MS, "MongoDB removes the row"


async def test_its_owner_can_remove_it_earlier(api: Api) -> None:
    (ann,) = await api.create_users("ann")
    done = await export(api, ann)
    file = done["url"].split("/files/")[1].partition("/")[0]
    assert await api.data(ann, CANCEL, id=file) == {"cancelUpload": True}
    assert (await get(api, done["url"])).status_code == 404


def patch_sections(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
    """Let the attempts at an export fail with errors, one after another, after some hundred kilobytes."""
    left = list(errors)

    async def list_records(_: Exported) -> AsyncGenerator[Sequence[Record], None]:
        yield [{"number": number, "hash": hash(str(number))} for number in range(50_000)]
        if left:
            raise left.pop(0)

    monkeypatch.setattr("resolvers.export.export_job.SECTIONS", (ExportSection("numbers", "Numbers.", list_records),))


async def test_an_export_that_fails_is_shown_and_can_be_repeated(
    api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ann,) = await api.create_users("ann")
    begun = await begin(api, ann)
    patch_sections(monkeypatch, ValueError("a defect"))
    await api.services.job_worker.run_due()
    assert await find(api, ann, begun["id"]) == begun | {"state": "FAILED"}
    await api.advance_days(clock, 0.1)
    await sweep(api)
    assert files_of(api, ann) == []
    assert (await export(api, ann))["id"] != begun["id"]


async def test_an_export_begins_again_after_an_interruption(
    api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ann,) = await api.create_users("ann")
    begun = await begin(api, ann)
    patch_sections(monkeypatch, Unreachable("no primary"))
    await api.services.job_worker.run_due()
    api.database["jobs"].update_one({"_id": begun["id"]}, {"$set": {"d": 1}})
    await api.services.job_worker.run_due()
    found = await find(api, ann, begun["id"])
    assert found is not None and found["state"] == "DONE"
    assert len(Zip((await get(api, found["url"])).content).lines("numbers")) == 50_000
    await api.advance_days(clock, 0.1)
    await sweep(api)
    assert len(files_of(api, ann)) == len(blobs_of(api, ann)) == 1


async def test_an_export_whose_file_is_removed_meanwhile_fails(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    (ann,) = await api.create_users("ann")
    begun = await begin(api, ann)
    monkeypatch.setattr("resolvers.export.export_job._NOTED_EVERY_SECONDS", -1.0)

    async def list_records(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
        (file,) = files_of(api, ann)
        assert await exported.app.store.files.cancel(file["_id"], UserId(ann), exported.app.store.clock.now_ms())
        yield [{"a": 1}]

    monkeypatch.setattr("resolvers.export.export_job.SECTIONS", (ExportSection("numbers", "Numbers.", list_records),))
    await api.services.job_worker.run_due()
    assert await find(api, ann, begun["id"]) == begun | {"state": "FAILED"}
    job = await api.services.app.store.jobs.find(begun["id"])
    assert job is not None and job.state is JobState.FAILED
