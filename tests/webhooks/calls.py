"""GraphQL documents about outgoing webhooks, and calls that use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from resolvers.users.callers import Caller, CallerRole
from tests.api.client import Api, Json, make_caller
from tests.waiting import TIMEOUT_SECONDS

WEBHOOK = "id kind name url secret events state failingSince"
CREATE = f"""mutation ($workspace: ID, $url: String!, $events: [WebhookEventType!]!, $channels: [ID!]) {{
    createOutgoingWebhook(workspaceId: $workspace, url: $url, events: $events, channelIds: $channels) {{
        {WEBHOOK} }} }}"""
ROTATE = f"mutation ($id: ID!) {{ rotateWebhookSecret(webhookId: $id) {{ {WEBHOOK} }} }}"
DELETE = "mutation ($id: ID!) { deleteWebhook(webhookId: $id) }"
REDELIVER = """mutation ($id: ID!, $delivery: ID, $since: DateTime) {
    redeliverWebhook(webhookId: $id, deliveryId: $delivery, since: $since) }"""
LIST = f"query ($workspace: ID) {{ webhooks(workspaceId: $workspace) {{ {WEBHOOK} }} }}"
DELIVERIES = """query ($id: ID!, $first: Int = 100, $after: String) {
    webhookDeliveries(webhookId: $id, first: $first, after: $after) {
        edges { cursor node { id eventId attempts status nextAttemptAt deliveredAt } }
        pageInfo { hasNextPage endCursor } } }"""
NODE = f"query ($id: ID!) {{ node(id: $id) {{ __typename ... on Webhook {{ {WEBHOOK} }} }} }}"

MESSAGES = ("MESSAGE_CREATED", "MESSAGE_UPDATED", "MESSAGE_RECALLED")


def admin() -> Caller:
    return make_caller("root", CallerRole.ADMIN)


async def create_webhook(
    api: Api, caller: str | Caller, url: str, *events: str, workspace: str | None = None, **more: Any
) -> Json:
    """Create an outgoing webhook, and return it with its secret."""
    wanted = list(events or MESSAGES)
    created: Json = await api.data(caller, CREATE, workspace=workspace, url=url, events=wanted, **more)
    return dict(created["createOutgoingWebhook"])


async def find_webhook(api: Api, caller: str | Caller, id: str) -> Json:
    """Return a webhook as a caller who may manage it sees it."""
    found: Json = (await api.data(caller, NODE, id=id))["node"]
    return found


async def list_deliveries(api: Api, caller: str | Caller, id: str) -> list[Json]:
    """Return the newest 100 deliveries, the oldest of them first."""
    edges = (await api.data(caller, DELIVERIES, id=id))["webhookDeliveries"]["edges"]
    return [edge["node"] for edge in reversed(edges)]


async def redeliver(api: Api, caller: str | Caller, id: str, **which: Any) -> int:
    """Send events again, and return how many."""
    return int((await api.data(caller, REDELIVER, id=id, **which))["redeliverWebhook"])


async def wait_for_delivered(api: Api, caller: str | Caller, id: str, count: int) -> list[Json]:
    """Wait until this many events are stored as delivered. Return all, the oldest first."""
    return await _wait_for(api, caller, id, lambda found: sum(bool(each["deliveredAt"]) for each in found) >= count)


async def wait_for_failure(api: Api, caller: str | Caller, id: str, attempts: int = 1) -> list[Json]:
    """Wait until the attempts of an event that is not delivered are stored. Return all events, the oldest first."""
    return await _wait_for(
        api, caller, id, lambda found: any(each["attempts"] >= attempts and not each["deliveredAt"] for each in found)
    )


async def _wait_for(api: Api, caller: str | Caller, id: str, is_enough: Callable[[list[Json]], bool]) -> list[Json]:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not is_enough(found := await list_deliveries(api, caller, id)):  # noqa: ASYNC110  # there are no events
            await asyncio.sleep(0.01)
    return found
