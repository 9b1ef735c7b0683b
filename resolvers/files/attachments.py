"""Files by their ids, for those who may see them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.conversations.access import NO_GROUP, list_readable
from resolvers.files.inspection.results import DEFAULT_TYPE
from resolvers.files.reading import is_readable
from store.base.ids import FileId, MessageId, UserId, parse_file_id
from store.files.file import Attachment, File, FileState
from store.messages.message import Message

_NO_MESSAGE = MessageId(0)
"""An id that no message ever has."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file as somebody sees it: a row, or the copy in a message's row.

    Attributes:
        id: Its number.
        filename: The name that its owner gave it.
        content_type: Type found in the bytes; before that, the owner's hint.
        size: Length in bytes, as stored; before that, as announced.
        state: Its state.
        is_image: It has thumbnails.
        description: Text for those who cannot see it.
        width: Images and videos: in pixels.
        height: Images and videos: in pixels.
        thumb_hash: Images: ThumbHash in base64.
        spoiler: Clients hide it until a click.
        has_bytes: Its bytes may be read. False until READY, and once its message is recalled.
    """

    id: FileId
    filename: str
    content_type: str
    size: int
    state: FileState
    is_image: bool = False
    description: str | None = None
    width: int | None = None
    height: int | None = None
    thumb_hash: str | None = None
    spoiler: bool = False
    has_bytes: bool = True


def shown_file(file: File, now_ms: int) -> ShownFile:
    """Return a file as those see it who may read it. Dimensions and preview are shown once it is READY."""
    content = file.content
    is_ready = content is not None and file.state is FileState.READY
    return ShownFile(
        id=file.id,
        filename=file.filename,
        content_type=content.content_type if content is not None else file.type_hint or DEFAULT_TYPE,
        size=content.size if content is not None else file.size,
        state=file.state,
        is_image=is_ready and content is not None and content.is_image,
        description=file.description,
        width=content.width if is_ready and content is not None else None,
        height=content.height if is_ready and content is not None else None,
        thumb_hash=content.thumb_hash if is_ready and content is not None else None,
        spoiler=file.spoiler,
        has_bytes=is_readable(file, now_ms),
    )


def shown_attachment(attachment: Attachment) -> ShownFile:
    """Return a file of a message that is not recalled."""
    content = attachment.content
    return ShownFile(
        id=attachment.id,
        filename=attachment.filename,
        content_type=content.content_type,
        size=content.size,
        state=FileState.READY,
        is_image=content.is_image,
        description=attachment.description,
        width=content.width,
        height=content.height,
        thumb_hash=content.thumb_hash,
        spoiler=attachment.spoiler,
    )


async def find_file(app: Confab, viewer: UserId, attachment: str) -> ShownFile | None:
    """Return a file: to its owner, and to those who may read its message at this moment. None to everybody else."""
    number = parse_file_id(attachment)
    if number is None:
        return None
    file = await app.store.files.find(number)
    if file is not None and file.owner == viewer:
        return await show_own(app, file)
    # The same reads whether the file exists or not, so response times do not show it.
    is_shown = await _is_shown(app, viewer, file)
    return shown_file(file, app.store.clock.now_ms()) if file is not None and is_shown else None


async def show_own(app: Confab, file: File) -> ShownFile:
    """Return a file as its owner sees it: without bytes if it is in a message that the owner may not read any more."""
    shown = shown_file(file, app.store.clock.now_ms())
    if file.message is None or not shown.has_bytes:
        return shown
    message = (await app.store.messages.find_by_ids([file.message])).get(file.message)
    # A message that has claimed the file may not be stored yet.
    may_read = message is None or await _may_read(app, file.owner, message)
    return replace(shown, has_bytes=may_read)


async def _is_shown(app: Confab, viewer: UserId, file: File | None) -> bool:
    """Return whether a user may read the message that has a file, or its copy. Nobody reads a recalled message."""
    is_in_message = file is not None and file.message is not None and file.state is FileState.READY
    wanted = file.message if file is not None and file.message is not None else _NO_MESSAGE
    message = (await app.store.messages.find_by_ids([wanted])).get(wanted)
    is_stored = is_in_message and message is not None and not message.is_recalled
    return await _may_read(app, viewer, message if is_stored else None)


async def _may_read(app: Confab, viewer: UserId, message: Message | None) -> bool:
    """Return whether a user may read a message, or its copy. None: the answer takes as long, and is False."""
    copy = await app.store.copies.find(message) if message is not None else None
    places = [(each.conversation, each.seq) for each in (message, copy) if each is not None]
    return bool(await list_readable(app.store, viewer, places or [(NO_GROUP, 1)]))
