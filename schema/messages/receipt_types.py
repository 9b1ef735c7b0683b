"""The GraphQL types of receipts. A status only moves forward: SENT, DELIVERED, READ."""

from __future__ import annotations

from enum import Enum

import strawberry

from resolvers.base.pages import Edge, Page
from resolvers.messages.receipts import DeliverySummary
from schema.base.context import Info
from schema.base.nodes import PageInfo
from schema.base.scalars import DateTime
from schema.compiler import reads
from schema.users.user_types import UserType, load_user
from store.receipts.receipt_marks import ReceiptKind
from store.receipts.receipt_pages import Receipt


@strawberry.enum
class ReceiptStatus(Enum):
    SENT = "SENT"
    DELIVERED = ReceiptKind.DELIVERED
    READ = ReceiptKind.READ


def status_from(kind: ReceiptKind | None) -> ReceiptStatus:
    """Return the status of a receipt; SENT if there is no receipt yet."""
    return ReceiptStatus(kind) if kind is not None else ReceiptStatus.SENT


@strawberry.type(name="Delivery")
class DeliveryType:
    record: strawberry.Private[DeliverySummary]
    status: ReceiptStatus
    recipient_count: int = reads("record.recipients")
    delivered_count: int = reads("record.delivered")
    read_count: int = reads("record.read")


@strawberry.type(
    name="Receipt",
    description="Reading without an earlier acknowledgement of delivery sets both times, with one READ event.",
)
class ReceiptType:
    record: strawberry.Private[Receipt]
    status: ReceiptStatus
    delivered_at: DateTime | None = reads("record.delivered_at_ms")
    read_at: DateTime | None = reads("record.read_at_ms")

    @strawberry.field
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.record.user)


def delivery_from(delivery: DeliverySummary) -> DeliveryType:
    """Return the delivery summary of a message."""
    return DeliveryType(record=delivery, status=status_from(delivery.status))


@strawberry.type
class ReceiptEdge:
    edge: strawberry.Private[Edge[Receipt]]
    node: ReceiptType
    cursor: str = reads("edge.cursor")


@strawberry.type
class ReceiptConnection:
    edges: list[ReceiptEdge]
    page_info: PageInfo


def receipt_connection(page: Page[Receipt]) -> ReceiptConnection:
    """Return a page of receipts as a Relay connection."""
    return ReceiptConnection(
        edges=[ReceiptEdge(edge=edge, node=_receipt_from(edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )


def _receipt_from(receipt: Receipt) -> ReceiptType:
    return ReceiptType(record=receipt, status=status_from(receipt.status))
