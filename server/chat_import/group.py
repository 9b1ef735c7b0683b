"""Prepares an import: creates the users and the group with its initial members."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.names import clean_name
from resolvers.base.pages import LARGEST_PAGE
from resolvers.groups.group_changes import invite_members
from resolvers.groups.group_creation import NewGroup, create_group
from resolvers.groups.groups import find_group, list_groups
from resolvers.users.callers import Caller, CallerRole
from resolvers.users.users import MAX_USERS, upsert_users
from server.chat_import.plan import IMPORTER
from server.errors import CommandError
from store.base.ids import ConversationId, UserId
from store.deployment.chat_imports import ImportStore
from store.users.user import User

IMPORTING_CALLER = Caller(IMPORTER, CallerRole.SERVICE, math.inf)
_IMPORTER = User(IMPORTER, "Import", None, True)


class ImportedPeople:
    """Users that imports have created. Imports change the names of these users only."""

    def __init__(self, app: Confab, imports: ImportStore) -> None:
        self._app = app
        self._imports = imports
        self._created: set[UserId] = set()

    async def ensure_users(self, names: Mapping[UserId, str]) -> None:
        """Create missing users, and set the names of users that imports have created."""
        known = await self._app.store.users.find_many([IMPORTER, *names])
        new = [user for user in names if user not in known]
        await self._imports.insert_users(new)
        self._created = await self._imports.list_users(names)
        wanted = [replace(known.get(u, User(u, None, None, False)), name=names[u]) for u in names if u in self._created]
        changed = [user for user in wanted if known.get(user.id) != user]
        if IMPORTER not in known:
            changed.append(_IMPORTER)
        for start in range(0, len(changed), MAX_USERS):
            await upsert_users(self._app, IMPORTING_CALLER, changed[start : start + MAX_USERS])

    async def rename(self, user: UserId, name: str) -> None:
        """Change the name of a user that imports have created."""
        if user in self._created:
            found = await self._app.store.users.find_many([user])
            await upsert_users(self._app, IMPORTING_CALLER, [replace(found[user], name=name)])


async def open_group(
    app: Confab, imports: ImportStore, name: str, starters: Sequence[UserId]
) -> tuple[ConversationId, set[UserId]]:
    """Return the group for imports under a name, and its members.

    Creates the group, or invites missing starters, if necessary. There is exactly one group per name, also after
    interrupted imports. Raises CommandError if the importer can no longer write to the group.
    """
    group = await imports.find_group(name)
    if group is None:
        found = await _find_group_named(app, name) or await _create_group(app, name, starters)
        group = await imports.insert_group(name, found)
    access = await find_group(app, IMPORTER, group)
    if access is None or not access.is_current or access.head.has_ended:
        raise CommandError(f"{name} ({group}) was dissolved, or the importer left it: choose another name.")
    members = await _list_members(app, group)
    missing = [user for user in starters if user not in members]
    if missing:
        await invite_members(app, IMPORTER, group, missing)
    return group, members | set(missing)


async def invite_member(group: ConversationId, app: Confab, user: UserId) -> None:
    """Make a user a member of an imported group."""
    await invite_members(app, IMPORTER, group, [user])


async def _create_group(app: Confab, name: str, starters: Sequence[UserId]) -> ConversationId:
    key = f"import {hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"
    new = NewGroup(name, None, tuple(starters), full_history=False, key=key)
    return (await create_group(app, IMPORTER, new)).head.conversation


async def _find_group_named(app: Confab, name: str) -> ConversationId | None:
    """Find a group that an import created, but was stopped before it stored the group's id."""
    after = None
    while True:
        page = await list_groups(app, IMPORTER, LARGEST_PAGE, after)
        heads = await app.store.conversations.find_many([edge.node for edge in page.edges])
        for head in heads.values():
            if (
                head.group is not None
                and (head.group.name, head.group.owner) == (clean_name(name), IMPORTER)
                and not head.has_ended
            ):
                return head.conversation
        if not page.has_next:
            return None
        after = page.edges[-1].cursor


async def _list_members(app: Confab, group: ConversationId) -> set[UserId]:
    return {member.user for member in await app.store.conversations.list_members(group) if member.is_current}
