"""What senders ask about their messages, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api.client import Api, Json

RECEIPTS = """query ($id: ID!, $first: Int = 50, $after: String, $status: ReceiptStatus) { message(id: $id) {
    receipts(first: $first, after: $after, status: $status) { pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    edges { cursor node { user { id } status deliveredAt readAt } } } } }"""
DELIVERY = "query ($id: ID!) { message(id: $id) { delivery { status recipientCount deliveredCount readCount } } }"
OFFLINE = """query ($first: Int = 50, $after: String) { offlineMessages(first: $first, after: $after) {
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    edges { cursor node { id conversationId seq content contentType sender { id } } } } }"""


@dataclass(frozen=True)
class Receipts:
    """The API, as somebody uses it who cares for ticks."""

    api: Api

    async def page(self, viewer: str, message: Json, **more: Any) -> Json | None:
        """One page of receipts; None where they are not the viewer's to see."""
        found = (await self.api.data(viewer, RECEIPTS, id=message["id"], **more))["message"]
        page: Json | None = found["receipts"]
        return page

    async def rows(self, viewer: str, message: Json, **more: Any) -> list[Json]:
        page = await self.page(viewer, message, **more)
        assert page is not None
        return [edge["node"] for edge in page["edges"]]

    async def statuses(self, viewer: str, message: Json, **more: Any) -> dict[str, str]:
        """Recipient by recipient. Times are there exactly where the status says so."""
        found = {}
        for row in await self.rows(viewer, message, **more):
            assert (row["deliveredAt"] is not None) == (row["status"] != "SENT"), row
            assert (row["readAt"] is not None) == (row["status"] == "READ"), row
            found[row["user"]["id"]] = row["status"]
        return found

    async def delivery(self, viewer: str, message: Json) -> tuple[Any, ...] | None:
        """Status, recipients, delivered, read; None where it is not the viewer's to see."""
        found = (await self.api.data(viewer, DELIVERY, id=message["id"]))["message"]["delivery"]
        return tuple(found.values()) if found is not None else None

    async def offline(self, user: str, page: int = 100) -> list[Json]:
        """The whole offline queue, newest first."""
        found: list[Json] = []
        after = None
        while True:
            listed = (await self.api.data(user, OFFLINE, first=page, after=after))["offlineMessages"]
            found += [edge["node"] for edge in listed["edges"]]
            after = listed["pageInfo"]["endCursor"]
            if not listed["pageInfo"]["hasNextPage"]:
                return found


def advanced(conversation: str, user: str, status: str, seq: int) -> Json:
    """A ReceiptAdvanced, less its cursor."""
    return {
        "__typename": "ReceiptAdvanced",
        "conversationId": conversation,
        "user": {"id": user},
        "status": status,
        "seq": seq,
    }


def without_cursor(event: Json) -> Json:
    return {name: value for name, value in event.items() if name != "cursor"}
