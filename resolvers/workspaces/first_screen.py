"""The first screen of a client: sessions, workspaces and the numbers of a badge, read together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.pages import PageSizes
from resolvers.sessions.attention import Attention, attention_from
from resolvers.sessions.session_lists import SessionPage, list_sessions
from resolvers.workspaces.access import WorkspaceAccess, list_accesses
from store.base.ids import UserId

_SESSIONS = 50


class OwnWorkspace(NamedTuple):
    """A workspace of which the user is a member. `rev`: a position on its clock that `access` includes."""

    access: WorkspaceAccess
    rev: int


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """A page of the main list, all workspaces of the user in the order of joining, and the numbers of a badge.

    All of it includes everything up to the cursor of `sessions`.
    """

    sessions: SessionPage
    workspaces: Sequence[OwnWorkspace]
    attention: Attention


async def read_first_screen(app: Confab, user: UserId, sizes: PageSizes) -> FirstScreen:
    """Return the first screen of a user.

    One round trip to Redis, and a second one if there are mentions in channels.
    """
    sessions, totals, workspaces = await asyncio.gather(
        list_sessions(app, user, _SESSIONS, None, sizes=sizes),
        app.store.sessions.read_all_totals(user),
        list_own_workspaces(app, user),
    )
    return FirstScreen(sessions, workspaces, await attention_from(app, user, totals))


async def list_own_workspaces(app: Confab, user: UserId) -> list[OwnWorkspace]:
    """Return all workspaces that a user is a member of, in the order of joining.

    Two round trips to MongoDB, and one to Redis in between, if the policies are known.
    """
    joined = [entry.workspace for entry in await app.store.user_workspaces.list_joined(user)]
    if not joined:
        return []
    clocks = await app.store.clocks.read(joined)
    accesses = await list_accesses(app, user, joined)
    return [
        OwnWorkspace(access, clock.tick)
        for access, clock in zip(accesses, clocks, strict=True)
        if access is not None and access.facts is not None
    ]
