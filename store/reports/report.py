"""Reports, and their stored forms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from store.base.ids import ConversationId, MessageId, UserId
from store.base.known_values import known_value
from store.base.snowflakes import created_at_ms
from store.base.workspace_ids import WorkspaceId
from store.files.file import Attachment, attachment_from
from store.mongo.client import Document

ReportId = NewType("ReportId", str)
"""`x_<32 hexadecimal digits>`. It follows from the reporter and the thing reported, so there is never a second one."""

_REPORT = re.compile(r"x_[0-9a-f]{32}\Z")

OF_DEPLOYMENT = "-"
"""`ReportField.QUEUE` of reports that belong to no workspace."""


class ReportReason(StrEnum):
    """The contract's ReportReason, with its stored values."""

    SPAM = "SPAM"
    HARASSMENT = "HARASSMENT"
    VIOLENCE = "VIOLENCE"
    SEXUAL = "SEXUAL"
    SELF_HARM = "SELF_HARM"
    ILLEGAL = "ILLEGAL"
    OTHER = "OTHER"


class ReportState(StrEnum):
    """State of a report, with its stored values. Lists have open ones first, so their value comes first."""

    OPEN = "O"
    RESOLVED = "R"


class ReportAction(StrEnum):
    """The contract's ReportAction, with its stored values."""

    NONE = "NONE"
    RECALL = "RECALL"
    TIMEOUT = "TIMEOUT"
    KICK = "KICK"
    BAN = "BAN"


class ReportField:
    """Stored names of the fields of `reports`. Empty fields are left out."""

    ID = "_id"
    QUEUE = "w"
    """The workspace that the report belongs to, or OF_DEPLOYMENT."""
    STATE = "st"
    ORDER = "o"
    """A snowflake: the time of the report, and its place in lists."""
    REPORTER = "u"
    USER = "s"
    """The reported user, or the author of what was reported."""
    REASON = "r"
    NOTE = "n"
    CONVERSATION = "c"
    MESSAGE = "m"
    SEQ = "q"
    TEXT = "x"
    """The text of the reported message, as the reporter saw it."""
    ATTACHMENT = "f"
    """`Attachment.to_stored` of the reported file."""
    ACTION = "a"
    RESOLVED_BY = "rb"
    RESOLVED_AT = "rt"
    RESOLUTION_NOTE = "rn"
    BEGUN_ACTION = "ba"
    """The action of a resolution that was begun."""
    BEGUN_AT = "bt"
    """When it was begun (ms)."""
    NOTE_DUE = "d"
    """When any server may note the event for webhooks (ms). Absent once it is noted."""


@dataclass(frozen=True, slots=True)
class ReportedMessage:
    """The message that was reported, or that has the reported file."""

    id: MessageId
    conversation: ConversationId
    seq: int


@dataclass(frozen=True, slots=True)
class Report:
    """A report. Times are in ms since the epoch.

    Attributes:
        id: Its id.
        order: A snowflake: its place in lists.
        reporter: The user who reported.
        user: The reported user, or the author of what was reported.
        reason: Why.
        workspace: The workspace that it belongs to; None: the deployment.
        message: The reported message, or the one with the reported file.
        text: The text of the reported message at that time; None: it had none.
        attachment: The reported file, as it was then.
        note: Words of the reporter.
        state: OPEN or RESOLVED.
        action: What was done. Set once it is RESOLVED.
        resolved_by: The moderator.
        resolved_at_ms: When it was resolved.
        resolution_note: Words of the moderator.
        begun_action: The action of a resolution that was begun and is not complete.
    """

    id: ReportId
    order: int
    reporter: UserId
    user: UserId
    reason: ReportReason
    workspace: WorkspaceId | None = None
    message: ReportedMessage | None = None
    text: str | None = None
    attachment: Attachment | None = None
    note: str | None = None
    state: ReportState = ReportState.OPEN
    action: ReportAction | None = None
    resolved_by: UserId | None = None
    resolved_at_ms: int | None = None
    resolution_note: str | None = None
    begun_action: ReportAction | None = None

    @property
    def created_at_ms(self) -> int:
        """Time of the report."""
        return created_at_ms(self.order)

    @property
    def queue(self) -> str:
        """`ReportField.QUEUE` of its row."""
        return queue_of(self.workspace)


_F = ReportField


def is_report_id(text: str) -> bool:
    """Return whether text has the form of the id of a report."""
    return _REPORT.match(text) is not None


def queue_of(workspace: WorkspaceId | None) -> str:
    """Return the stored name of the queue of a workspace; None: of the deployment."""
    return workspace if workspace is not None else OF_DEPLOYMENT


def new_row(report: Report, note_due_ms: int | None) -> Document:
    """Return the row of an open report, without its id. note_due_ms: see `ReportField.NOTE_DUE`."""
    message = report.message
    fields = {
        _F.QUEUE: report.queue,
        _F.STATE: report.state.value,
        _F.ORDER: report.order,
        _F.REPORTER: report.reporter,
        _F.USER: report.user,
        _F.REASON: report.reason.value,
        _F.NOTE: report.note,
        _F.CONVERSATION: message.conversation if message is not None else None,
        _F.MESSAGE: message.id if message is not None else None,
        _F.SEQ: message.seq if message is not None else None,
        _F.TEXT: report.text,
        _F.ATTACHMENT: report.attachment.to_stored() if report.attachment is not None else None,
        _F.NOTE_DUE: note_due_ms,
    }
    return {name: value for name, value in fields.items() if value is not None}


def report_from(row: Document) -> Report:
    """Return the report of a row."""
    queue, action, begun = row[_F.QUEUE], row.get(_F.ACTION), row.get(_F.BEGUN_ACTION)
    message = None
    if _F.MESSAGE in row:
        message = ReportedMessage(MessageId(row[_F.MESSAGE]), ConversationId(row[_F.CONVERSATION]), row[_F.SEQ])
    attachment = row.get(_F.ATTACHMENT)
    resolved_by = row.get(_F.RESOLVED_BY)
    return Report(
        id=ReportId(row[_F.ID]),
        order=row[_F.ORDER],
        reporter=UserId(row[_F.REPORTER]),
        user=UserId(row[_F.USER]),
        reason=known_value(ReportReason, row[_F.REASON], ReportReason.OTHER),
        workspace=WorkspaceId(queue) if queue != OF_DEPLOYMENT else None,
        message=message,
        text=row.get(_F.TEXT),
        attachment=attachment_from(attachment) if attachment is not None else None,
        note=row.get(_F.NOTE),
        state=known_value(ReportState, row[_F.STATE], ReportState.RESOLVED),
        action=known_value(ReportAction, action, ReportAction.NONE) if action is not None else None,
        resolved_by=UserId(resolved_by) if resolved_by is not None else None,
        resolved_at_ms=row.get(_F.RESOLVED_AT),
        resolution_note=row.get(_F.RESOLUTION_NOTE),
        begun_action=ReportAction(begun) if begun is not None else None,
    )


def without_user_contents(row: Document, user: UserId, *, keeps_texts: bool) -> Document:
    """Return a row without the name of an erased user's file, and without the text of their message.

    keeps_texts: The text stays.
    """
    new = dict(row)
    if row[_F.USER] != user:
        return new
    if _F.ATTACHMENT in row:
        nameless = attachment_from(row[_F.ATTACHMENT])._replace(filename="file", description=None)
        new[_F.ATTACHMENT] = nameless.to_stored()
    if not keeps_texts:
        new.pop(_F.TEXT, None)
    return new
