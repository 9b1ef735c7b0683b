"""The GraphQL types of receipts. A status only moves forward: SENT, DELIVERED, READ."""

from __future__ import annotations

from enum import Enum

import strawberry

from resolvers.base.pages import Page
from resolvers.messages.receipts import DeliverySummary
from schema.base.context import Info
from schema.base.nodes import PageInfo, page_info
from schema.base.scalars import DateTime
from schema.users.user_types import UserType, load_user
from store.base.ids import UserId
from store.receipts.receipt_marks import ReceiptKind
from store.receipts.receipt_store import Receipt


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
    status: ReceiptStatus
    recipient_count: int
    delivered_count: int
    read_count: int


def delivery_from(delivery: DeliverySummary) -> DeliveryType:
    """Return the delivery summary of a message."""
    return DeliveryType(
        status=status_from(delivery.status),
        recipient_count=delivery.recipients,
        delivered_count=delivery.delivered,
        read_count=delivery.read,
    )


@strawberry.type(
    name="Receipt",
    description="Reading without an earlier acknowledgement of delivery sets both times, with one READ event.",
)
class ReceiptType:
    user_id: strawberry.Private[UserId]
    status: ReceiptStatus
    delivered_at: DateTime | None
    read_at: DateTime | None

    @strawberry.field
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.user_id)


@strawberry.type
class ReceiptEdge:
    node: ReceiptType
    cursor: str


@strawberry.type
class ReceiptConnection:
    edges: list[ReceiptEdge]
    page_info: PageInfo


def receipt_connection(page: Page[Receipt]) -> ReceiptConnection:
    """Return a page of receipts as a Relay connection."""
    return ReceiptConnection(
        edges=[ReceiptEdge(node=_receipt_from(edge.node), cursor=edge.cursor) for edge in page.edges],
        page_info=page_info(page),
    )


def _receipt_from(receipt: Receipt) -> ReceiptType:
    return ReceiptType(
        user_id=receipt.user,
        status=status_from(receipt.status),
        delivered_at=DateTime(receipt.delivered_at_ms) if receipt.delivered_at_ms is not None else None,
        read_at=DateTime(receipt.read_at_ms) if receipt.read_at_ms is not None else None,
    )
