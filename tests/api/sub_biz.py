"""People who talk within a subBiz, and what tests of gateways ask all the time."""

from __future__ import annotations

from tests.api.client import SYNC, Api, Json, private


async def shop(api: Api, *counts: int) -> tuple[str, list[str], list[str]]:
    """Somebody to whom others wrote within a subBiz, so many messages each. Answers them, the others, and where."""
    alice, *others = await api.people("alice", *(f"u{number}" for number in range(len(counts))))
    for other, count in zip(others, counts, strict=True):
        for _ in range(count):
            await api.send(other, alice, subBiz="shop")
    return alice, others, [private(alice, other, "shop") for other in others]


async def sync(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


def ids(sessions: list[Json]) -> list[str]:
    return [session["conversation"]["id"] for session in sessions]
