"""The GraphQL types of reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import strawberry

from resolvers.base.pages import Edge, Page
from resolvers.reports import queue
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import DateTime
from schema.compiler import prefetched_by, reads, then
from schema.files.file_types import AttachmentType
from schema.messages.message_types import MessageType, message_from
from schema.users.user_types import UserType, load_user
from store.files.file import Attachment
from store.messages.message import Message
from store.reports.report import Report, ReportAction, ReportReason, ReportState

for _enum in (ReportReason, ReportState, ReportAction):
    strawberry.enum(_enum)


def _prefetch_reporters(context: Context, reports: Sequence[ReportType]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([report.record.reporter for report in reports])


def _prefetch_users(context: Context, reports: Sequence[ReportType]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([report.record.user for report in reports])


def _prefetch_messages(context: Context, reports: Sequence[ReportType]) -> asyncio.Future[Any] | None:
    messages = [report.record.message for report in reports if report.record.message is not None]
    return context.loaders.prefetch_readable([(message.conversation, message.seq) for message in messages])


@strawberry.type(
    name="Report",
    description="message: the reported one, or the one with the reported file; null where the viewer may not read it "
    "(any more). text: that of the reported message when it was reported. user: the reported one, or the author of "
    "what was reported. attachment: has a url for those only who may read its message. action: null until RESOLVED.",
)
class ReportType(Node):
    record: strawberry.Private[Report]
    id: strawberry.ID = reads("record.id")
    text: str | None = reads("record.text")
    reason: ReportReason = reads("record.reason")
    note: str | None = reads("record.note")
    state: ReportState = reads("record.state")
    action: ReportAction | None = reads("record.action")
    created_at: DateTime = reads("record.created_at_ms")

    @strawberry.field(metadata=prefetched_by(_prefetch_reporters))
    def reporter(self, info: Info) -> UserType:
        return load_user(info.context, self.record.reporter)

    @strawberry.field(metadata=prefetched_by(_prefetch_messages))
    def message(self, info: Info) -> MessageType | None:
        return then(self._find_message(info.context), lambda found: message_from(found) if found is not None else None)

    @strawberry.field(metadata=prefetched_by(_prefetch_users))
    def user(self, info: Info) -> UserType | None:
        return load_user(info.context, self.record.user)

    @strawberry.field(metadata=prefetched_by(_prefetch_messages))
    def attachment(self, info: Info) -> AttachmentType | None:
        reported = self.record.attachment
        if reported is None:
            return None
        return then(self._find_message(info.context), lambda found: _attachment_from(reported, found))

    @strawberry.field
    def resolved_by(self, info: Info) -> UserType | None:
        user = self.record.resolved_by
        return load_user(info.context, user) if user is not None else None

    def _find_message(self, context: Context) -> Any:
        message = self.record.message
        if message is None:
            return None
        return context.loaders.readable_message(message.conversation, message.seq)


@strawberry.type
class ReportEdge:
    edge: strawberry.Private[Edge[Report]]
    node: ReportType
    cursor: str = reads("edge.cursor")


@strawberry.type
class ReportConnection:
    edges: list[ReportEdge]
    page_info: PageInfo


def report_from(report: Report) -> ReportType:
    """Return the GraphQL object of a report."""
    return ReportType(record=report)


def report_connection(page: Page[Report]) -> ReportConnection:
    """Return a page of reports as a Relay connection."""
    return ReportConnection(
        edges=[ReportEdge(edge=edge, node=report_from(edge.node)) for edge in page.edges], page_info=PageInfo(page=page)
    )


async def find_report_node(context: Context, id: str) -> ReportType | None:
    """Return a report, or None if the viewer may not see it."""
    if context.caller is None:
        return None
    found = await queue.find_report(context.app, context.caller, id)
    return report_from(found) if found is not None else None


def _attachment_from(reported: Attachment, message: Message | None) -> AttachmentType:
    """Return the reported file: with its bytes only if the viewer may read the message, and it still has the file."""
    is_there = message is not None and any(file.id == reported.id for file in message.attachments)
    return AttachmentType.of_message(reported) if is_there else AttachmentType.without_bytes(reported)
