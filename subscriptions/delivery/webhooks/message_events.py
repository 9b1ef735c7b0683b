"""The events of outgoing webhooks that a message, or a report about one, causes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from store.base.ids import ConversationKind, kind_of
from store.base.workspace_ids import is_in_workspace
from store.messages.message import Message
from store.messages.revision_store import RevisionKind
from store.messages.system_events import SystemEventKind
from store.reports.report import Report
from store.webhooks.event_rows import NotedEvent
from store.webhooks.webhook import WebhookEventType

Wants = Callable[[WebhookEventType, str], bool]
"""Returns whether a webhook may want events of a type in a conversation."""

_OF_MEMBERS = {
    SystemEventKind.MEMBERS_JOINED: WebhookEventType.MEMBER_JOINED,
    SystemEventKind.MEMBER_LEFT: WebhookEventType.MEMBER_LEFT,
    SystemEventKind.MEMBER_REMOVED: WebhookEventType.MEMBER_LEFT,
}
_OF_GROUPS = (SystemEventKind.RENAMED, SystemEventKind.TOPIC_CHANGED, SystemEventKind.OWNER_CHANGED)


def events_of(message: Message, revision: RevisionKind | None, wants: Wants, now_ms: int) -> Iterator[NotedEvent]:
    """Yield the events of a new message, or of a revision of it. Their ids are the same however often this is called.

    A change of a group without a message has the seq 0.
    """
    conversation, seq = message.conversation, message.seq
    for type, suffix in _types(message, revision):
        if wants(type, conversation):
            id = f"{message.public_id}-{suffix}"
            yield NotedEvent(id, type.value, conversation, (seq,), now_ms, seq if revision is None else 0)


def reactions_event(message: Message, now_ms: int) -> NotedEvent:
    """Return the event of changed reactions to a message."""
    id = f"{message.public_id}-reactions-{message.reactions_version}"
    return NotedEvent(id, WebhookEventType.REACTIONS_CHANGED.value, message.conversation, (message.seq,), now_ms)


def report_event(report: Report) -> NotedEvent:
    """Return the event of an opened report. It is in the conversation of the reported message, if there is one.

    So a webhook of some channels gets only the reports about messages there.
    """
    conversation = report.message.conversation if report.message is not None else ""
    at_ms = report.created_at_ms
    return NotedEvent(f"{report.id}-opened", WebhookEventType.REPORT_OPENED.value, conversation, (report.id,), at_ms)


def _types(message: Message, revision: RevisionKind | None) -> Iterator[tuple[WebhookEventType, str]]:
    """Yield types of events, and what tells their ids from those of others of the message."""
    kind = kind_of(message.conversation)
    match revision:
        case RevisionKind.EDIT:
            yield WebhookEventType.MESSAGE_UPDATED, f"edit-{message.edits}"
        case RevisionKind.EMBEDS:
            yield WebhookEventType.MESSAGE_UPDATED, f"embeds-{message.embeds.version}"
        case RevisionKind.RECALL:
            yield WebhookEventType.MESSAGE_RECALLED, "recalled"
        case None if message.seq:
            yield WebhookEventType.MESSAGE_CREATED, "created"
            event = message.system_event
            if event is not None and event.kind in _OF_MEMBERS:
                yield _OF_MEMBERS[event.kind], "members"
            elif event is not None and event.kind in _OF_GROUPS and kind is ConversationKind.GROUP:
                yield WebhookEventType.GROUP_CHANGED, "group"
            if message.kind.countable and not is_in_workspace(message.conversation):
                yield WebhookEventType.USER_OFFLINE_MESSAGE, "offline"
        case None if kind is ConversationKind.GROUP:
            yield WebhookEventType.GROUP_CHANGED, "group"
