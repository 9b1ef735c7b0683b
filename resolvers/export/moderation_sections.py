"""Sections about moderation: users that the user has blocked, and reports that the user made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from resolvers.base.times import iso_text_or_none
from resolvers.export.section import Exported, Record
from store.base.ids import file_id, message_id


async def list_blocked_users(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the users that the user has blocked."""
    yield [
        {"userId": block.user, "blockedAt": iso_text_or_none(block.at_ms)}
        for block in await exported.app.store.blocks.rows.list_blocks(exported.user)
    ]


async def list_reports(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the reports that the user made.

    The text of others is left out, and so is everything about the decision but the state: it is about others too.
    Nobody can report themselves: such a report was made by a content rule.
    """
    async for reports in exported.app.store.reports.list_of_reporter(exported.user):
        yield [
            {
                "id": report.id,
                "createdAt": iso_text_or_none(report.created_at_ms),
                "userId": report.user,
                "workspaceId": report.workspace,
                "conversationId": report.message.conversation if report.message is not None else None,
                "messageId": message_id(report.message.id) if report.message is not None else None,
                "attachmentId": file_id(report.attachment.id) if report.attachment is not None else None,
                "reason": report.reason.value,
                "note": report.note,
                "state": report.state.name,
            }
            for report in reports
            if report.user != exported.user
        ]
