"""The two ways in which a membership ends, and a group to try them on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import Api

Departure = Callable[[Api, str, str, str], Awaitable[object]]
"""Ends a membership: (process, the owner, the group, the member)."""

DEPARTURES: dict[str, Departure] = {
    "leaving": lambda api, owner, group, user: api.leave(user, group),
    "being removed": lambda api, owner, group, user: api.remove(owner, group, user),
}
both_departures = pytest.mark.parametrize("depart", DEPARTURES.values(), ids=DEPARTURES.keys())


async def read_seqs(api: Api, user: str, group: str) -> list[int]:
    return [message["seq"] for message in await api.history(user, group)]


async def create_group_with_messages(api: Api, count: int = 3, **fields: object) -> tuple[str, str, str, str]:
    """Create a group with messages of its owner. Return the owner, two members, and the group."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, name="The group", **fields)
    for number in range(count):
        await api.send(alice, group, f"{number}")
    return alice, bob, carol, group
