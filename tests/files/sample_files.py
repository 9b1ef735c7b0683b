"""Files of one user, as tests need them."""

from __future__ import annotations

from typing import Any

from store.base.ids import ConversationId, FileId, MessageId, UserId
from store.files.blobs.base import BlobInfo
from store.files.file import File, FileContent, FileState
from store.files.file_store import UNUSED_MS
from store.store import Store

ANNA, BEN = UserId("anna"), UserId("ben")
HERE, ELSEWHERE = ConversationId("g_1"), ConversationId("g_2")
FIRST, SECOND = MessageId(1), MessageId(2)


def new_file(store: Store, **changes: Any) -> File:
    now_ms = store.clock.now_ms()
    fields: dict[str, Any] = {
        "id": FileId(store.ids.next()),
        "owner": ANNA,
        "conversation": HERE,
        "filename": "a.txt",
        "size": 3,
        "sha256": None,
        "type_hint": None,
        "description": None,
        "spoiler": False,
        "state": FileState.UPLOADING,
        "blobs": (),
        "content": None,
        "message": None,
        "is_bound": False,
        "remove_at_ms": now_ms + UNUSED_MS,
        "digest": "same",
    }
    return File(**fields | changes)


async def create(store: Store, **changes: Any) -> File:
    return (await store.files.create(new_file(store, **changes))).file


async def add_ready(store: Store, **changes: Any) -> File:
    """Return a file whose upload is complete."""
    file = await create(store, **changes)
    name = f"{file.id}/o-1"
    assert await store.files.begin_write(file.id, name, store.clock.now_ms() + 1_000)
    assert await store.files.finish_upload(file.id, BlobInfo(name, 3, "aa"))
    ready = await store.files.store_content(file.id, name, FileState.READY, FileContent(name, "text/plain", 3))
    assert ready is not None
    return ready


async def claim(store: Store, file: File, message: MessageId, **changes: Any) -> bool:
    fields: dict[str, Any] = {"owner": ANNA, "conversations": [HERE], "now_ms": store.clock.now_ms()}
    return file.id in await store.file_claims.claim([file.id], message=message, **fields | changes)


async def find(store: Store, file: File) -> File:
    found = await store.files.find(file.id)
    assert found is not None
    return found
