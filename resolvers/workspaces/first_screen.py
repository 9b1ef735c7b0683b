"""The first screen of a client: sessions, workspaces and the numbers of a badge, read together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.pages import PageSizes
from resolvers.sessions.attention import Attention, attention_from
from resolvers.sessions.session_lists import SessionPage, page_from
from resolvers.workspaces.access import WorkspaceAccess, access_of_info
from store.base.ids import UserId
from store.notifications.notification_settings import NotificationSettings
from store.presence.presence_record import PresenceRecord
from store.sessions.session_store import list_name

_SESSIONS = 50


class OwnWorkspace(NamedTuple):
    """A workspace of which the user is a member. `rev`: a position on its clock that `access` includes."""

    access: WorkspaceAccess
    rev: int


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """A page of the main list, all workspaces of the user in the order of joining, a badge, and what the user has set.

    All of it includes everything up to the cursor of `sessions`.
    """

    sessions: SessionPage
    workspaces: Sequence[OwnWorkspace]
    attention: Attention
    presence: PresenceRecord
    notification_settings: NotificationSettings


async def read_first_screen(app: Confab, user: UserId, sizes: PageSizes) -> FirstScreen:
    """Return the first screen of a user.

    One round trip to Redis if everything is known, and a second one if there are mentions in channels.
    """
    size, name = sizes.check(_SESSIONS, "first"), list_name(None, None)
    read = await app.store.first_screens.read(user, name, size + 1)
    attention, accesses = await asyncio.gather(
        attention_from(app, user, read.totals),
        asyncio.gather(*(access_of_info(app, user, workspace.info) for workspace in read.workspaces)),
    )
    workspaces = [
        OwnWorkspace(access, workspace.tick)
        for access, workspace in zip(accesses, read.workspaces, strict=True)
        if access is not None and access.facts is not None
    ]
    page = page_from(app, user, name, size, read.sessions)
    return FirstScreen(page, workspaces, attention, read.presence, read.notification_settings)
