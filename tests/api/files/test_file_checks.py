"""`confab check` finds files and blobs that do not fit together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from store.base.ids import UserId, message_id
from store.base.snowflakes import first_id_at
from store.checking.check import Difference, Objects
from store.checking.registry import CHECKS
from store.store import Store
from tests.api.client import Api, private_id
from tests.api.files.calls import blob_names, create_upload, put, rows, upload_file
from tests.checking import run_checks
from tests.clock import DAY_MS

OTHERS = [name for name in CHECKS if name != "attachments"]
"""Checks that find nothing in messages of earlier tests, whose files the next test deletes."""


async def list_differences(store: Store) -> list[Difference]:
    return [difference for result in (await run_checks(store, OTHERS)).values() for difference in result.differences]


class Sent(NamedTuple):
    """A file in a message."""

    api: Api
    number: int
    message: str


@pytest.fixture
async def sent(api: Api) -> AsyncIterator[Sent]:
    for name in ("files", "blobs.files", "blobs.chunks"):
        api.database[name].delete_many({})
    alice, bob = await api.create_users("alice", "bob")
    file = await upload_file(api, alice, private_id(alice, bob))
    # Neither a difference: a file that nobody has sent, and a blob of an upload that is not complete.
    await upload_file(api, alice, private_id(alice, bob))
    await put(api, (await create_upload(api, alice, private_id(alice, bob)))["url"])
    new = NewMessage(bob, None, "look", attachments=(file["id"],))
    message = (await send_message(api.services.app, UserId(alice), new)).message
    await api.wait_until_idle()
    assert await list_differences(api.services.app.store) == []
    yield Sent(api, int(file["id"][2:]), message_id(message.id))


async def repair(sent: Sent, name: str) -> list[tuple[str, str]]:
    """Return what one check finds and repairs. Nothing is left."""
    store = sent.api.services.app.store
    found = (await run_checks(store))[name].differences
    result = (await run_checks(store, [name], repairs=True))[name]
    assert found == result.repaired and found
    assert await list_differences(store) == []
    return [(difference.object_id, difference.field) for difference in found]


async def test_a_bound_file_without_message_is_left_to_the_sweeper(sent: Sent) -> None:
    sent.api.database["files"].update_one({"_id": sent.number}, {"$set": {"m": 1}})
    assert await repair(sent, "file-messages") == [(f"f_{sent.number}", "kept for")]
    assert sent.api.database["files"].find_one({"_id": sent.number, "st": "X", "rm": {"$exists": True}})


async def test_an_unbound_file_of_a_message_is_kept(sent: Sent) -> None:
    now_ms = sent.api.services.app.store.clock.now_ms()
    change = {"$set": {"rm": now_ms + DAY_MS}, "$unset": {"mb": ""}}
    sent.api.database["files"].update_one({"_id": sent.number}, change)
    assert await repair(sent, "file-messages") == [(f"f_{sent.number}", "kept for")]
    assert sent.api.database["files"].find_one({"_id": sent.number, "mb": True, "rm": {"$exists": False}})


async def test_a_file_of_a_message_that_the_previous_version_recalled_is_removed(sent: Sent) -> None:
    before = sent.api.database["files"].find_one({"_id": sent.number})
    message = sent.api.database["messages"].find_one({"_id": int(sent.message[2:])})
    assert before is not None and message is not None
    await sent.api.recall(message["u"], sent.message)
    await sent.api.wait_until_idle()
    # That version does not know the files of messages.
    sent.api.database["files"].replace_one({"_id": sent.number}, before)
    store = sent.api.services.app.store
    found = (await run_checks(store, ["file-messages"]))["file-messages"].differences
    assert [(each.object_id, each.value, each.expected) for each in found] == [(f"f_{sent.number}", sent.message, None)]
    assert (await run_checks(store, ["file-messages"], repairs=True))["file-messages"].repaired == found
    assert (await run_checks(store, ["file-messages"]))["file-messages"].differences == []
    await sent.api.services.housekeeper.files.sweep()
    (row,) = [row for row in rows(sent.api) if row["_id"] == sent.number]
    assert row["st"] == "X"


async def test_a_file_of_a_message_without_row_is_reported(sent: Sent) -> None:
    store = sent.api.services.app.store
    row = sent.api.database["messages"].find_one({"_id": int(sent.message[2:])})
    assert row is not None
    place = Objects.CONVERSATION, row["c"]
    assert (await run_checks(store, ["attachments"], object=place))["attachments"].differences == []
    sent.api.database["files"].delete_one({"_id": sent.number})
    result = (await run_checks(store, ["attachments"], repairs=True, object=place))["attachments"]
    assert [(each.expected, each.is_repairable) for each in result.differences] == [([f"f_{sent.number}"], False)]
    assert result.repaired == []


async def test_missing_bytes_are_reported(sent: Sent) -> None:
    row = sent.api.database["files"].find_one({"_id": sent.number})
    assert row is not None
    sent.api.database["blobs.files"].delete_one({"_id": row["k"][0]})
    store = sent.api.services.app.store
    result = (await run_checks(store, ["file-blobs"], repairs=True))["file-blobs"]
    assert [(each.object_id, each.expected) for each in result.differences] == [(f"f_{sent.number}", row["k"][0])]


async def test_only_old_blobs_without_row_are_deleted(sent: Sent) -> None:
    store = sent.api.services.app.store
    old = first_id_at(store.clock.now_ms() - DAY_MS - 60_000)
    new = first_id_at(store.clock.now_ms() - DAY_MS + 60_000)
    names = [f"{old}/upload-1", f"{new}/upload-1", "other"]
    for name in names:
        sent.api.database["blobs.chunks"].insert_one({"files_id": name, "n": 0, "data": b"x"})
    before = blob_names(sent.api)
    result = (await run_checks(store, ["stray-blobs"]))["stray-blobs"]
    assert [each.object_id for each in result.differences] == sorted(names)
    result = (await run_checks(store, ["stray-blobs"], repairs=True))["stray-blobs"]
    assert [each.object_id for each in result.repaired] == names[:1]
    assert blob_names(sent.api) == before - {names[0]}
    assert len(rows(sent.api)) == 3
