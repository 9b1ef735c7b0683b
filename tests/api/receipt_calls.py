"""GraphQL documents about receipts, and the calls that use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api.client import Api, Json

RECEIPTS = """query ($id: ID!, $first: Int = 50, $after: String, $status: ReceiptStatus) { message(id: $id) {
    receipts(first: $first, after: $after, status: $status) { pageInfo { hasNextPage hasPreviousPage
    startCursor endCursor }
    edges { cursor node { user { id } status deliveredAt readAt } } } } }"""
DELIVERY = "query ($id: ID!) { message(id: $id) { delivery { status recipientCount deliveredCount readCount } } }"
OFFLINE = """query ($first: Int = 50, $after: String) { offlineMessages(first: $first, after: $after) {
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    edges { cursor node { id conversationId seq content contentType sender { id } } } } }"""


@dataclass(frozen=True)
class Receipts:
    """Calls about receipts and delivery counts."""

    api: Api

    async def page(self, viewer: str, message: Json, **arguments: Any) -> Json | None:
        """Return one page of receipts, or None if the viewer may not see them."""
        result = (await self.api.data(viewer, RECEIPTS, id=message["id"], **arguments))["message"]
        page: Json | None = result["receipts"]
        return page

    async def rows(self, viewer: str, message: Json, **arguments: Any) -> list[Json]:
        page = await self.page(viewer, message, **arguments)
        assert page is not None
        return [edge["node"] for edge in page["edges"]]

    async def statuses(self, viewer: str, message: Json, **arguments: Any) -> dict[str, str]:
        """Return the status of each recipient. Check that the times match the status."""
        result = {}
        for row in await self.rows(viewer, message, **arguments):
            assert (row["deliveredAt"] is not None) == (row["status"] != "SENT"), row
            assert (row["readAt"] is not None) == (row["status"] == "READ"), row
            result[row["user"]["id"]] = row["status"]
        return result

    async def delivery(self, viewer: str, message: Json) -> tuple[Any, ...] | None:
        """Return status, recipient count, delivered count and read count, or None if the viewer may not see them."""
        result = (await self.api.data(viewer, DELIVERY, id=message["id"]))["message"]["delivery"]
        return tuple(result.values()) if result is not None else None

    async def offline(self, user: str, page: int = 100) -> list[Json]:
        """Return the whole offline queue, newest first."""
        result: list[Json] = []
        after = None
        while True:
            listed = (await self.api.data(user, OFFLINE, first=page, after=after))["offlineMessages"]
            result += [edge["node"] for edge in listed["edges"]]
            after = listed["pageInfo"]["endCursor"]
            if not listed["pageInfo"]["hasNextPage"]:
                return result


def receipt_advanced(conversation: str, user: str, status: str, seq: int) -> Json:
    """Return a ReceiptAdvanced event without its cursor."""
    return {
        "__typename": "ReceiptAdvanced",
        "conversationId": conversation,
        "user": {"id": user},
        "status": status,
        "seq": seq,
    }


def without_cursor(event: Json) -> Json:
    return {name: value for name, value in event.items() if name != "cursor"}
