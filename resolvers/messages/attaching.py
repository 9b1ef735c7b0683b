"""Files of new messages: claimed for a message before it takes a place (ADR 75)."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, Unavailable
from resolvers.messages.new_messages import NewMessage
from store.base.ids import parse_file_id
from store.files.message_files import ClaimedFiles, ClaimRefusal
from store.messages.message import Message

MAX_ATTACHMENTS = 10

_FIELD = "attachmentIds"
_RETRY_MS = 2_000


def check_attachments(new: NewMessage) -> None:
    """Raise InvalidInput for too many files, or one that is named twice."""
    if len(new.attachments) > MAX_ATTACHMENTS:
        raise InvalidInput(f"a message can have at most {MAX_ATTACHMENTS} files", field=_FIELD)
    if len(set(new.attachments)) < len(new.attachments):
        raise InvalidInput("attachmentIds names a file twice; name each file once", field=_FIELD)


async def claim_files(app: Confab, message: Message, new: NewMessage) -> ClaimedFiles:
    """Claim the files of a message. One round trip if all can be claimed. If not, none is.

    Raises:
        InvalidInput: A file does not exist, is not the sender's, is not READY, was made for another conversation or is
            in a message. The error is the same, so that it tells nothing about files of others.
        Unavailable: A file is being sent with another message, and it is not known yet whether that one is stored.
    """
    files = [number for file in new.attachments if (number := parse_file_id(file)) is not None]
    if len(files) < len(new.attachments):
        raise _unusable()
    claimed = await app.store.message_files.claim(message, files)
    match claimed:
        case ClaimedFiles():
            return claimed
        case ClaimRefusal.UNDECIDED:
            raise Unavailable(
                "a file is just being sent with another message; please try again",
                field=_FIELD,
                retry_after_ms=_RETRY_MS,
            )
        case ClaimRefusal.UNUSABLE:
            raise _unusable()


def _unusable() -> InvalidInput:
    return InvalidInput(
        "attachmentIds must name your own files that are READY, were uploaded for this conversation, and are in no "
        "message yet",
        field=_FIELD,
    )
