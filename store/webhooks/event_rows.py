"""Events as the log of outgoing webhooks stores them: references, never texts (ADR 90)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from store.base.ids import ConversationId
from store.mongo.client import Document
from store.webhooks.webhook import WebhookEventType, WebhookId

KEPT_MS = 30 * 24 * 3600 * 1000
"""Time for which events and their deliveries are kept."""

GAP = "GAP"
"""Type of the event that announces that others may have been lost."""

KNOWN_TYPES = frozenset((GAP, *WebhookEventType))
"""Types that this version can send. Events of other types are left to servers of later versions (ADR 104)."""


class EventField:
    """Stored names of the fields of `webhook_events`."""

    ID = "_id"
    """`<webhook> <event id>`."""
    WEBHOOK = "w"
    LINE = "l"
    """The line that the event is in: `<webhook> <conversation>`, as in `webhook_lines`."""
    ORDER = "o"
    """Position in the log of all webhooks. It grows in the order of events of one conversation."""
    TYPE = "k"
    REFERENCE = "r"
    """Names the subject of the event: see `NotedEvent.reference`."""
    AT = "at"
    """When it happened (ms)."""
    PENDING = "p"
    """1 until it is delivered. Absent afterwards."""
    ATTEMPTS = "n"
    STATUS = "s"
    """HTTP status of the last answer; absent: there was none."""
    NEXT = "t"
    """When the next attempt is due, after one that failed (ms)."""
    DELIVERED = "d"
    """When it was delivered (ms)."""
    UNTIL = "x"
    """End of the time for which the row is kept (date)."""


class LineField:
    """Stored names of the fields of `webhook_lines`: a row for each queue of pending events (see `Line`)."""

    ID = "_id"
    """`<webhook> <conversation>`."""
    WEBHOOK = "w"
    DUE = "d"
    """When the first pending event is due (ms)."""
    FAILURES = "n"
    """Failed attempts of the first pending event, since the webhook was last resumed."""
    VERSION = "v"
    """An order number of the log, another one each time that pending events were added. A removed line that comes again
    has a new one, so a process that was stopped for a while does not remove it."""


class NotedEvent(NamedTuple):
    """An event in its note, before it is in the log.

    Attributes:
        id: Its name, the same however often it is noted. It becomes the header webhook-id.
        type: `WebhookEventType`, or GAP.
        conversation: Its conversation. For events of a workspace as a whole the id of the workspace, for GAP "".
        reference: What it is about: of messages the seq; of members and channels their ids; of GAP two times (ms).
        at_ms: When it was noted.
        seq: Of an event of a new message: the seq, by which such events are ordered. 0: another event.
    """

    id: str
    type: str
    conversation: str
    reference: tuple[Any, ...]
    at_ms: int
    seq: int = 0


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An event of one webhook. Fields as in `EventField`."""

    webhook: WebhookId
    id: str
    order: int
    type: str
    conversation: ConversationId
    reference: tuple[Any, ...]
    at_ms: int
    is_pending: bool
    attempts: int
    status: int | None
    next_ms: int | None
    delivered_ms: int | None

    @property
    def row_id(self) -> str:
        """The `_id` of its row."""
        return f"{self.webhook} {self.id}"

    @property
    def delivery_id(self) -> str:
        """Its id as the API writes it."""
        return f"{self.webhook}.{self.order}"


class Line(NamedTuple):
    """The queue of pending events of one webhook in one conversation. Fields as in `LineField`."""

    webhook: WebhookId
    conversation: ConversationId
    failures: int
    version: int

    @property
    def id(self) -> str:
        """The `_id` of its row."""
        return line_id(self.webhook, self.conversation)


_F = EventField


def line_id(webhook: WebhookId, conversation: str) -> str:
    """Return the `_id` of a line."""
    return f"{webhook} {conversation}"


def row_of(webhook: WebhookId, event: NotedEvent, order: int) -> Document:
    """Return the row of an event that is pending."""
    return {
        _F.ID: f"{webhook} {event.id}",
        _F.WEBHOOK: webhook,
        _F.LINE: line_id(webhook, event.conversation),
        _F.ORDER: order,
        _F.TYPE: event.type,
        _F.REFERENCE: list(event.reference),
        _F.AT: event.at_ms,
        _F.PENDING: 1,
        _F.UNTIL: datetime.fromtimestamp((event.at_ms + KEPT_MS) / 1000, UTC),
    }


def webhook_event_from(row: Document) -> WebhookEvent:
    """Return the event of a row."""
    return WebhookEvent(
        WebhookId(row[_F.WEBHOOK]),
        row[_F.ID].partition(" ")[2],
        row[_F.ORDER],
        row[_F.TYPE],
        ConversationId(row[_F.LINE].partition(" ")[2]),
        tuple(row[_F.REFERENCE]),
        row[_F.AT],
        _F.PENDING in row,
        row.get(_F.ATTEMPTS, 0),
        row.get(_F.STATUS),
        row.get(_F.NEXT),
        row.get(_F.DELIVERED),
    )


def line_from(row: Document) -> Line:
    """Return the line of a row."""
    conversation = ConversationId(row[LineField.ID].partition(" ")[2])
    return Line(WebhookId(row[LineField.WEBHOOK]), conversation, row.get(LineField.FAILURES, 0), row[LineField.VERSION])
