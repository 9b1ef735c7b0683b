"""Uploads: reserving space for a file, and giving it up. Completing is in `completing.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from resolvers.base.app import Confab
from resolvers.base.errors import IdempotencyConflict, InvalidInput, LimitReached, Unavailable
from resolvers.base.rate_limits import check_rate
from resolvers.files.blob_writing import DIRECT, blob_name, is_direct
from resolvers.files.destinations import check_destination
from resolvers.files.new_files import NewFile
from store.base.ids import FileId, UserId, parse_file_id
from store.files.file import File, FileState
from store.files.file_store import UNUSED_MS

MAX_UNUSED = 100
"""Files of a user that no message has."""

UPLOAD_SECONDS = 3600
"""Time for which an address for an upload is valid."""

_DIRECT_SECONDS = UPLOAD_SECONDS + 3600
"""A request that begins when its address is still valid may take this long, from the issue of the address."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A request by which the client sends the bytes of a file."""

    file: File
    url: str
    expires_at_ms: int
    method: str = "PUT"
    headers: Mapping[str, str] = field(default_factory=dict)


async def create_upload(app: Confab, user: UserId, new: NewFile) -> Upload:
    """Reserve space for a file. The same key with the same input answers the same file, with a new address.

    Raises InvalidInput, FileTooLarge, NotFound, NotAMember, Forbidden, Archived, IdempotencyConflict, LimitReached,
    RateLimited: then nothing was stored.
    """
    new = new.accepted(app.limits.max_file_bytes)
    check_rate(app.store.rate_limits.sends, user)
    conversation = await check_destination(app, user, new.conversation)
    store, now_ms = app.store, app.store.clock.now_ms()
    file = File(
        id=FileId(store.ids.next()),
        owner=user,
        conversation=conversation,
        filename=new.filename,
        size=new.size,
        sha256=new.sha256,
        type_hint=new.type_hint,
        description=new.description,
        spoiler=new.spoiler,
        remove_at_ms=now_ms + UNUSED_MS,
        key=new.key,
        digest=new.digest(conversation),
    )
    stored, is_new = await store.files.create(file)
    if stored.digest != file.digest:
        raise IdempotencyConflict(
            "this idempotencyKey was used for another file; use a new one", field="idempotencyKey"
        )
    # Counted after the insertion: of calls at the same time, the last one counts all others.
    if is_new and await store.files.count_unused(user, now_ms, MAX_UNUSED + 1) > MAX_UNUSED:
        await store.files.discard(stored)
        raise LimitReached(
            f"you have {MAX_UNUSED} files that are in no message; send or cancel some of them, or wait a day"
        )
    return await _issue(app, stored)


async def _issue(app: Confab, file: File) -> Upload:
    """Return the request for the bytes of a file."""
    store = app.store
    now_ms = store.clock.now_ms()
    expires_at_ms = now_ms + UPLOAD_SECONDS * 1000
    through_confab = Upload(file, app.addresses.upload(file.id, expires_at_ms), expires_at_ms)
    if file.state is not FileState.UPLOADING:
        # The blob store would accept a direct upload again. Confab refuses it.
        return through_confab
    # A client may repeat a direct upload, so all have one name.
    name = next((name for name in file.blobs if is_direct(name)), None) or blob_name(file.id, DIRECT)
    direct = store.blobs.upload_request(name, file.size, file.sha256, UPLOAD_SECONDS)
    if direct is None:
        return through_confab
    if not await store.files.begin_write(file.id, name, now_ms + _DIRECT_SECONDS * 1000):
        raise Unavailable("the upload has changed at the same time; please try again")
    return Upload(file, direct.url, expires_at_ms, direct.method, direct.headers)


async def find_own(app: Confab, user: UserId, upload: str) -> File | None:
    """Return a file of a user that is not removed."""
    number = parse_file_id(upload)
    file = await app.store.files.find(number) if number is not None else None
    return file if file is not None and file.owner == user and file.state is not FileState.REMOVED else None


async def cancel_upload(app: Confab, user: UserId, upload: str) -> bool:
    """Give up a file that is in no message. False: the user has no such file. Raises InvalidInput, RateLimited."""
    check_rate(app.store.rate_limits.sends, user)
    file = await find_own(app, user, upload)
    if file is None:
        return False
    if await app.store.files.cancel(file.id, user, app.store.clock.now_ms()):
        return True
    if await find_own(app, user, upload) is None:
        return False
    raise InvalidInput("this file is in a message; recall the message instead", field="uploadId")
