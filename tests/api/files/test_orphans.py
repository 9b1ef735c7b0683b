"""Nothing lies in the blob store without a row, whatever dies at which step (ADR 75)."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from PIL import Image

from resolvers.base.errors import ConfabError
from resolvers.files.completing import complete_upload
from resolvers.files.new_files import NewFile
from resolvers.files.uploading import cancel_upload, create_upload
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from server.files.receiving import receive_upload
from store.base.ids import MessageId, UserId
from store.files.file import File, FileState
from store.files.file_store import WRITE_MARGIN_MS
from subscriptions.delivery.files.file_sweeper import FileSweeper
from tests.api.client import Api, private_id
from tests.api.conftest import OpenApi
from tests.api.files.calls import blob_names, rows
from tests.api.files.dying_server import Death, dying, mortal
from tests.clock import DAY_MS, ManualClock

ALICE, BOB = UserId("alice"), UserId("bob")
HERE = private_id(ALICE, BOB)
MESSAGE = MessageId(1)


def _picture() -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(target, "PNG")
    return target.getvalue()


PICTURE = _picture()


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
async def old_api(open_api: OpenApi, clock: ManualClock) -> AsyncIterator[Api]:
    async with open_api("orphans", clock, recall_seconds=10**9) as api:
        await api.run(ALICE, "{ me { id } }")
        await api.run(BOB, "{ me { id } }")
        yield api


async def body(content: bytes) -> AsyncIterator[bytes]:
    yield content


class Life:
    """Life of one file, step by step, at one server."""

    def __init__(self, api: Api) -> None:
        self.app = api.services.app
        self.sweeper = api.services.housekeeper.files
        self.file: File | None = None

    async def create(self, key: str = "k") -> None:
        # The lease of the worker number does not know the clock of the test.
        self.app.store.ids.valid_until_ms = 1 << 60
        new = NewFile("a.png", len(PICTURE), HERE, key=key)
        self.file = (await create_upload(self.app, ALICE, new)).file

    async def send(self) -> None:
        assert self.file is not None
        await receive_upload(self.app.store, self.file, body(PICTURE))

    async def complete(self) -> None:
        assert self.file is not None
        await complete_upload(self.app, ALICE, self.file.public_id)

    async def cancel(self) -> None:
        assert self.file is not None
        await cancel_upload(self.app, ALICE, self.file.public_id)

    async def claim(self) -> None:
        assert self.file is not None
        now_ms = self.app.store.clock.now_ms()
        await self.app.store.file_claims.claim([self.file.id], ALICE, [HERE], MESSAGE, now_ms)

    async def bind(self) -> None:
        assert self.file is not None
        await self.app.store.file_claims.bind([self.file.id], MESSAGE)

    async def recall(self) -> None:
        assert self.file is not None
        await self.app.store.file_claims.remove([self.file.id], MESSAGE, self.app.store.clock.now_ms())

    async def sweep(self) -> None:
        await self.sweeper.sweep()


UNUSED = (Life.create, Life.send, Life.send, Life.complete)
CANCELLED = (*UNUSED, Life.cancel)
RECALLED = (*UNUSED, Life.claim, Life.bind, Life.recall)


def check_that_rows_name_all_blobs(api: Api) -> None:
    assert blob_names(api) <= {name for row in rows(api) for name in row["b"]}


async def sweep_all(api: Api, clock: ManualClock) -> None:
    """Let two days pass with housekeeping."""
    for _ in range(3):
        clock.ms += DAY_MS
        while await api.services.housekeeper.files.sweep():
            pass


async def live(life: Life, steps: tuple[Callable[[Life], Awaitable[None]], ...], death: Death) -> None:
    with dying(death):
        for step in steps:
            await step(life)


@pytest.mark.parametrize(
    ("steps", "after"),
    [
        pytest.param(UNUSED, False, id="unused"),
        pytest.param(UNUSED, True, id="unused-after", marks=pytest.mark.long),
        pytest.param(CANCELLED, False, id="cancelled", marks=pytest.mark.long),
        pytest.param(RECALLED, False, id="recalled", marks=pytest.mark.long),
        pytest.param(RECALLED, True, id="recalled-after", marks=pytest.mark.long),
    ],
)
async def test_a_server_may_die_at_every_write_of_an_upload(
    old_api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, steps: Any, after: bool
) -> None:
    api, died = old_api, 0
    with mortal(api.services.app.store.mongo, monkeypatch):
        for step in range(1, 100):
            life, death = Life(api), Death(step, after=after)
            await live(life, steps, death)
            check_that_rows_name_all_blobs(api)
            if any(row.get("mb") for row in rows(api)):
                # The message has the file, so it stays until the user recalls the message again.
                await sweep_all(api, clock)
                assert len(blob_names(api)) == 1 or rows(api)[0]["st"] == "X"
                await life.recall()
            await sweep_all(api, clock)
            assert blob_names(api) == set()
            assert all((row["st"], row["b"], row.get("mb")) == ("X", [], True) for row in rows(api))
            api.database["files"].delete_many({})
            if not death.is_dead:
                break
            died += 1
    assert died >= 15


async def test_a_server_may_die_at_every_write_of_a_removal(
    old_api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, died = old_api, 0
    with mortal(api.services.app.store.mongo, monkeypatch):
        for step in range(1, 100):
            await live(Life(api), UNUSED, Death(None))
            # Tidying and removing.
            for days in (0.5, 1):
                clock.ms += int(days * DAY_MS)
                death = Death(step)
                await live(Life(api), (Life.sweep,), death)
                check_that_rows_name_all_blobs(api)
                died += death.is_dead
            await sweep_all(api, clock)
            assert (blob_names(api), rows(api)) == (set(), [])
            if not death.is_dead:
                break
    assert died >= 8


async def test_of_servers_that_sweep_at_once_one_removes_a_file(old_api: Api, clock: ManualClock) -> None:
    for key in "abc":
        life = Life(old_api)
        await life.create(key)
        await life.send()
    clock.ms += 2 * DAY_MS
    sweepers = [FileSweeper(old_api.services.app.store) for _ in range(3)]
    assert sum(await asyncio.gather(*(sweeper.sweep() for sweeper in sweepers))) == 3
    assert (blob_names(old_api), rows(old_api)) == (set(), [])


async def test_bytes_that_arrive_while_an_upload_is_completed_are_removed(old_api: Api, clock: ManualClock) -> None:
    api, life = old_api, Life(old_api)
    await life.create()
    await life.send()
    assert life.file is not None

    async def slow() -> AsyncIterator[bytes]:
        yield PICTURE[:9]
        await life.complete()
        yield PICTURE[9:]

    with pytest.raises(Exception, match="complete"):
        await receive_upload(life.app.store, life.file, slow())
    check_that_rows_name_all_blobs(api)
    clock.ms += DAY_MS // 2
    await api.services.housekeeper.files.sweep()
    (row,) = rows(api)
    assert blob_names(api) == set(row["b"]) == {row["k"][0]}
    await sweep_all(api, clock)
    assert (blob_names(api), rows(api)) == (set(), [])


async def test_a_file_is_not_removed_while_a_server_writes_for_it(old_api: Api, clock: ManualClock) -> None:
    api, life = old_api, Life(old_api)
    await life.create()
    assert life.file is not None
    swept = []

    async def slow() -> AsyncIterator[bytes]:
        yield PICTURE[:9]
        await life.cancel()
        swept.append(await api.services.housekeeper.files.sweep())
        clock.ms += 60_000
        swept.append(await api.services.housekeeper.files.sweep())
        yield PICTURE[9:]

    with pytest.raises(ConfabError, match="no such upload"):
        await receive_upload(life.app.store, life.file, slow())
    assert swept == [0, 0] and len(rows(api)) == 1
    clock.ms += 60_000 + 2 * WRITE_MARGIN_MS
    assert await api.services.housekeeper.files.sweep() == 1
    assert (blob_names(api), rows(api)) == (set(), [])


async def test_a_claimed_file_is_bound_if_its_message_is_stored(old_api: Api, clock: ManualClock) -> None:
    api, life = old_api, Life(old_api)
    for step in UNUSED:
        await step(life)
    assert life.file is not None
    new = NewMessage(BOB, None, "look", attachments=(life.file.public_id,))
    sent = (await send_message(api.services.app, ALICE, new)).message
    await api.wait_until_idle()
    # As if the server had died after it stored the message.
    now_ms = clock.ms
    api.database["files"].update_one({}, {"$set": {"rm": now_ms + DAY_MS}, "$unset": {"mb": ""}})
    clock.ms += 2 * DAY_MS
    await api.services.housekeeper.files.sweep()
    (row,) = rows(api)
    assert (row["m"], row["mb"], row["st"], row.get("rm")) == (int(sent.id), True, FileState.READY.value, None)
    await sweep_all(api, clock)
    (row,) = rows(api)
    assert blob_names(api) == set(row["b"])
    await api.data(ALICE, "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }", id=f"m_{sent.id}")
    await api.wait_until_idle()
    await sweep_all(api, clock)
    assert blob_names(api) == set()
    api.database["files"].delete_many({})
