"""Reports messages, users and files that the reporter can see."""

from __future__ import annotations

from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.files.attachments import find_file
from resolvers.messages.history import find_readable, no_message
from resolvers.moderation.targets import accept_reason
from resolvers.users.users import access_users
from store.base.ids import UserId, parse_file_id
from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from store.files.file import Attachment
from store.reports.report import Report, ReportedMessage, ReportReason


class Subject(NamedTuple):
    """Ids of the things that are reported, as the caller gave them. Exactly one has to be given."""

    message: str | None = None
    user: str | None = None
    attachment: str | None = None


class _Reported(NamedTuple):
    """A thing that the reporter can see, with the values that the report keeps. key: unique for each thing."""

    key: str
    user: UserId
    message: ReportedMessage | None = None
    text: str | None = None
    attachment: Attachment | None = None


async def report(app: Confab, reporter: UserId, subject: Subject, reason: ReportReason, note: str | None) -> Report:
    """Report something. If the user has reported it before, that report is returned, resolved or not.

    Raises InvalidInput unless exactly one thing is given, or if it is the reporter's own; NotFound if the reporter
    can't see it; RateLimited. Then nothing was stored.
    """
    _check_subject(subject)
    note = accept_reason(note, "note")
    check_rate(app.store.rate_limits.invite_lookups, reporter)
    reported = await _access(app, reporter, subject)
    message = reported.message
    in_workspace = message is not None and is_in_workspace(message.conversation)
    return await app.reports.open(
        Report(
            id=app.store.reports.id_of(reporter, reported.key),
            order=app.store.ids.next(),
            reporter=reporter,
            user=reported.user,
            reason=reason,
            workspace=workspace_of_channel(message.conversation) if message is not None and in_workspace else None,
            message=message,
            text=reported.text,
            attachment=reported.attachment,
            note=note,
        )
    )


def _check_subject(subject: Subject) -> None:
    names = dict(zip(("messageId", "userId", "attachmentId"), subject, strict=True))
    given = [name for name, value in names.items() if value is not None]
    if len(given) != 1:
        field = given[1] if given else "messageId"
        raise InvalidInput("give exactly one of messageId, userId and attachmentId", field=field)


async def _access(app: Confab, reporter: UserId, subject: Subject) -> _Reported:
    if subject.message is not None:
        return await _access_message(app, reporter, subject.message)
    if subject.attachment is not None:
        return await _access_attachment(app, reporter, subject.attachment)
    assert subject.user is not None
    if subject.user == reporter:
        raise _own("userId")
    (user,) = await access_users(app, [subject.user], "userId")
    # A user id may look like that of a message or a file.
    return _Reported(f"user {user}", user)


async def _access_message(app: Confab, reporter: UserId, id: str) -> _Reported:
    found = await find_readable(app, reporter, id)
    if found is None:
        raise no_message()
    message = found[0]
    if message.sender == reporter:
        raise _own("messageId")
    place = ReportedMessage(message.id, message.conversation, message.seq)
    return _Reported(message.public_id, message.sender, place, message.text)


async def _access_attachment(app: Confab, reporter: UserId, id: str) -> _Reported:
    """Return a file that somebody else has sent. Files that are in no message are seen by their owners only."""
    store, number = app.store, parse_file_id(id)
    shown = await find_file(app, reporter, id)
    file = await store.files.find(number) if number is not None and shown is not None else None
    if file is None:
        raise _no_attachment()
    if file.owner == reporter:
        raise _own("attachmentId")
    wanted = file.message
    message = (await store.messages.find_by_ids([wanted])).get(wanted) if wanted is not None else None
    if message is None or file.content is None:
        raise _no_attachment()
    place = ReportedMessage(message.id, message.conversation, message.seq)
    return _Reported(file.public_id, file.owner, place, attachment=file.as_attachment())


def _no_attachment() -> NotFound:
    return NotFound("there is no such file, or you can't see it", field="attachmentId")


def _own(field: str) -> InvalidInput:
    return InvalidInput(
        "you can't report yourself, or what you have sent; report something of another user", field=field
    )
