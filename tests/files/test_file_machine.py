"""Comparison of files with a naive model, over random sequences of uploads, messages, deaths and time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.base.ids import FileId, MessageId
from store.files.file import File, FileContent, FileState
from store.files.file_claims import CLAIM_MS
from store.files.file_store import UNUSED_MS, WRITE_MARGIN_MS
from store.store import Store
from subscriptions.delivery.files.file_sweeper import FileSweeper
from tests.clock import ManualClock
from tests.files.sample_files import ANNA, claim, create

WRITE_MS = 600_000
LONG = int(os.environ.get("CONFAB_TEST_MACHINE_EXAMPLES", "0"))
WEIGHTS = {
    "create": 1,
    "send": 3,
    "send and die": 1,
    "complete": 3,
    "cancel": 1,
    "claim": 4,
    "release": 1,
    "bind": 2,
    "recall": 1,
    "thumbnail": 2,
    "thumbnail and die": 1,
    "half an hour": 4,
    "hours": 2,
    "sweep": 1,
}
"""Weight of each operation in the random choice."""


@dataclass
class Model:
    """A file as a reader of ADR 75 expects it."""

    number: FileId
    created_ms: int
    remove_at_ms: int | None
    state: str = "uploading"
    uploaded: str | None = None
    content: str | None = None
    thumbnail: str | None = None
    written: int = 0
    writing_until_ms: int = 0
    message: int | None = None
    claimed_at_ms: int = 0
    is_bound: bool = False


async def body() -> AsyncIterator[bytes]:
    yield b"abc"


class Machine:
    """Runs operations on the store and on the model, and compares them."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.sweeper = FileSweeper(store)
        self.files: list[Model] = []

    async def run(self, operation: str, position: int, message: int) -> None:
        match operation:
            case "create":
                file = await create(self.store, key=None)
                self.files.append(Model(file.id, self.clock.ms, file.remove_at_ms))
            case "half an hour":
                self.clock.ms += 30 * 60_000
            case "hours":
                self.clock.ms += 5 * 3_600_000
            case "sweep":
                await self.sweep()
            case _ if position < len(self.files):
                await self.change(operation, self.files[position], message)

    async def change(self, operation: str, model: Model, message: int) -> None:
        match operation:
            case "send" | "send and die":
                await self.send(model, dies=operation == "send and die")
            case "thumbnail" | "thumbnail and die":
                await self.add_thumbnail(model, dies=operation == "thumbnail and die")
            case "complete":
                await self.complete(model)
            case "cancel":
                may = model.state not in ("removed", "gone") and model.message is None
                assert await self.store.files.cancel(model.number, ANNA, self.clock.ms) == may
                if may:
                    model.state, model.remove_at_ms = "removed", self.clock.ms
            case _:
                await self.use(operation, model, MessageId(message))

    async def write(self, model: Model, state: FileState) -> str | None:
        model.written += 1
        name, until_ms = f"{model.number}/{model.written}", self.clock.ms + WRITE_MS
        if not await self.store.files.begin_write(model.number, name, until_ms, state):
            return None
        model.writing_until_ms = max(model.writing_until_ms, until_ms)
        await self.store.blobs.write(name, body())
        return name

    async def send(self, model: Model, *, dies: bool) -> None:
        name = await self.write(model, FileState.UPLOADING)
        assert (name is not None) == (model.state == "uploading")
        if name is not None and not dies:
            blob = await self.store.blobs.find(name)
            assert blob is not None
            assert await self.store.files.finish_upload(model.number, blob) is not None
            model.uploaded = name

    async def complete(self, model: Model) -> None:
        name = model.uploaded or "none"
        content = FileContent(name, "a/b", 3)
        done = await self.store.files.store_content(model.number, name, FileState.READY, content)
        assert (done is not None) == (model.state == "uploading" and model.uploaded is not None)
        if done is not None:
            model.state, model.content = "ready", name

    async def add_thumbnail(self, model: Model, *, dies: bool) -> None:
        name = await self.write(model, FileState.READY)
        assert (name is not None) == (model.state == "ready")
        if name is not None and not dies:
            is_first = await self.store.files.add_thumbnail(model.number, 160, name, self.clock.ms)
            assert is_first == (model.thumbnail is None)
            model.thumbnail = model.thumbnail or name

    async def use(self, operation: str, model: Model, message: MessageId) -> None:
        claims, now_ms = self.store.file_claims, self.clock.ms
        has_it = model.message == message
        if operation == "claim":
            is_free = model.message is None or (has_it and not model.is_bound)
            may = model.state == "ready" and is_free and now_ms - model.created_ms < UNUSED_MS
            assert await claim(self.store, await self.find(model), message) == may
            if may:
                model.claimed_at_ms = (await self.find(model)).claimed_at_ms or 0
                model.message, model.remove_at_ms = message, max(model.remove_at_ms or 0, now_ms + CLAIM_MS)
        elif operation == "release":
            await claims.release([model.number], message, model.claimed_at_ms)
            if has_it and not model.is_bound:
                model.message = None
        elif operation == "bind":
            await claims.bind([model.number], message)
            if has_it and model.state == "ready":
                model.is_bound, model.remove_at_ms = True, None
        elif operation == "recall":
            await claims.remove([model.number], message, now_ms)
            if has_it and model.state not in ("removed", "gone"):
                model.state, model.is_bound, model.remove_at_ms = "removed", True, now_ms

    async def find(self, model: Model) -> File:
        found = await self.store.files.find(model.number)
        assert found is not None
        return found

    async def sweep(self) -> None:
        while await self.sweeper.sweep():
            pass
        for model in list(self.files):
            is_due = model.remove_at_ms is not None and model.remove_at_ms <= self.clock.ms
            if is_due and model.writing_until_ms + WRITE_MARGIN_MS <= self.clock.ms:
                model.state, model.remove_at_ms = "gone", None
                if not model.is_bound:
                    self.files.remove(model)

    async def check(self) -> None:
        """Compare what is stored with the model."""
        stored = {name async for page in self.store.blobs.list_names() for name in page}
        found = {file.id: file for file in await self.store.files.list_after(None, 1_000)}
        assert found.keys() == {model.number for model in self.files}
        assert stored <= {name for file in found.values() for name in file.blobs}
        for model in self.files:
            file = found[model.number]
            assert (file.message, file.is_bound) == (model.message, model.is_bound)
            assert file.state.name.lower() == {"gone": "removed"}.get(model.state, model.state)
            needed = {model.content, model.thumbnail, model.uploaded} - {None}
            if model.state in ("uploading", "ready"):
                assert needed - {model.uploaded} <= stored and model.content in (None, *stored)
            elif model.state == "gone":
                assert not file.blobs
        if all(model.writing_until_ms + WRITE_MARGIN_MS <= self.clock.ms for model in self.files):
            await self.sweep()
            left = {name async for page in self.store.blobs.list_names() for name in page}
            kept = {model.content for model in self.files if model.state == "ready"}
            kept |= {model.thumbnail for model in self.files if model.state == "ready"}
            attempts = {name for model in self.files if model.state == "uploading" for name in self.attempts(model)}
            assert kept - {None} <= left <= kept | attempts

    def attempts(self, model: Model) -> set[str]:
        return {f"{model.number}/{number}" for number in range(1, model.written + 1)}


@settings(
    max_examples=LONG or 8,
    derandomize=not LONG,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 1 << 32))
async def test_files_are_what_a_naive_model_says(store: Store, clock: ManualClock, seed: int) -> None:
    if await store.mongo.find_one("deployment", {"_id": 1}) is None:
        await store.deployment.open()
    for name in ("files", "blobs.files", "blobs.chunks"):
        await store.mongo.delete_each(name, [{}], many=True)
    machine, random = Machine(store, clock), Random(seed)
    for operation in ("create", "send", "complete", "create"):
        await machine.run(operation, 0, 1)
    for operation in random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=30):
        await machine.run(operation, random.randrange(3), random.choice((1, 1, 1, 2)))
        await machine.check()
