"""The two ways in which a group ends, and a group that has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.api.client import Api, Json
from tests.api.sample_group import RELATIONS, SampleGroup, create_sample_group

End = Callable[[Api, str, str], Awaitable[None]]

ENDS: dict[str, End] = {
    "dismissed": lambda api, owner, group: api.dismiss(owner, group),
    "dissolved": lambda api, owner, group: api.dissolve(owner, group),
}
both_ends = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
CURRENT_AND_FORMER = [relation for relation in RELATIONS if relation != "outsider"]


def code_after(end: End) -> str:
    """Return the code that current and former members get for operations after the end."""
    return "NOT_FOUND" if end is ENDS["dismissed"] else "NOT_A_MEMBER"


@dataclass(frozen=True)
class EndedGroup:
    """A group that has ended, and what its users read of it before."""

    sample: SampleGroup
    end: End
    histories: dict[str, list[Json]]
    sessions: dict[str, Json]


async def create_ended_group(api: Api, end: End, **group: object) -> EndedGroup:
    sample = await create_sample_group(api, **group)
    users = {relation: getattr(sample, relation) for relation in CURRENT_AND_FORMER}
    histories = {relation: await api.history(user, sample.group) for relation, user in users.items()}
    sessions = {relation: await api.own_session(user, sample.group) for relation, user in users.items()}
    await end(api, sample.owner, sample.group)
    return EndedGroup(sample, end, histories, sessions)
