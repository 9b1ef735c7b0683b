"""Helpers for the tests of subBiz and gateways."""

from __future__ import annotations

from tests.api.client import SYNC, Api, Json, private_id


async def create_shop_conversations(api: Api, *counts: int) -> tuple[str, list[str], list[str]]:
    """Create users who send to alice within the subBiz `shop`, `counts` messages each.

    Returns:
        alice, the senders, and their conversations.
    """
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(len(counts))))
    for other, count in zip(others, counts, strict=True):
        for _ in range(count):
            await api.send(other, alice, subBiz="shop")
    return alice, others, [private_id(alice, other, "shop") for other in others]


async def sync_sessions(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


def conversation_ids(sessions: list[Json]) -> list[str]:
    return [session["conversation"]["id"] for session in sessions]
