"""Reads everything that decisions about a batch of intents depend on, with a few round trips for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from resolvers.push.worker.decision import Case, Notifications
from resolvers.push.worker.recipients import read_messages
from store.base.ids import ConversationId, ConversationKind, UserId, gateway_id, kind_of, without_thread
from store.base.workspace_ids import RoleId, WorkspaceId, workspace_of_channel
from store.messages.message import Message
from store.notifications.notification_settings import NotificationSettings
from store.presence.presence_record import PresenceRecord, PresenceSetting
from store.push.push_intents import TakenIntent
from store.sessions.session import Session
from store.store import Store
from store.workspaces.user_workspaces import WorkspaceNotifications
from subscriptions.realtime.bans.banned_users import BannedUsers

_USERS_AT_ONCE = 200
_MESSAGES_BEFORE = 20
"""Messages before the shown one that may replace it if it is recalled."""

_OLDER_MENTIONS = 5
"""Newest mentions that are read for a user, if messages wait that are older than those that are read. There are several
because some may be recalled."""

_FEW_MESSAGES = 25
_PLACES_AT_ONCE = 200

_NOT_SET = WorkspaceNotifications()
Place = tuple[UserId, ConversationId]


class _InWorkspaces(NamedTuple):
    """Settings of users in workspaces, and their roles there."""

    notifications: Mapping[tuple[UserId, WorkspaceId], WorkspaceNotifications]
    roles: Mapping[tuple[UserId, WorkspaceId], frozenset[RoleId]]


class CaseReader:
    """Reads cases. Raises StoreError."""

    def __init__(self, store: Store, bans: BannedUsers) -> None:
        self._store = store
        self._bans = bans

    async def read(self, intents: Sequence[TakenIntent]) -> list[Case]:
        """Return the case of each intent."""
        users = list(dict.fromkeys(each.user for each in intents))
        settings, blocks, records, sessions, messages, inside = await asyncio.gather(
            self._store.notification_settings.find_many(users),
            self._store.blocks.rows.find(users),
            self._read_presences(users),
            self._read_sessions(intents),
            self._read_messages(intents),
            self._read_workspaces(intents),
        )
        gateways, older = await asyncio.gather(
            self._read_gateways(intents, sessions), self._read_older_mentions(intents, sessions, messages)
        )
        now_ms = self._store.clock.now_ms()
        cases = []
        for each in intents:
            record = records.get(each.user)
            workspace = _workspace_of(each.conversation)
            roles = inside.roles.get((each.user, workspace)) if workspace is not None else None
            cases.append(
                Case(
                    user=each.user,
                    intent=each.intent,
                    now_ms=now_ms,
                    session=sessions.get((each.user, each.conversation)),
                    gateway=gateways.get((each.user, each.conversation)),
                    messages=(*older.get((each.user, each.conversation), ()), *messages.get(each.conversation, ())),
                    notifications=_in_force(each, sessions, inside, settings[each.user]),
                    roles=roles or frozenset(),
                    is_banned=self._bans.find(each.user) is not None,
                    blocked=blocks[each.user].users,
                    is_in_use=record is not None and self._is_in_use(record),
                    is_disturbable=record is None or record.setting.at(now_ms).value is not PresenceSetting.DND,
                )
            )
        return cases

    def _is_in_use(self, record: PresenceRecord) -> bool:
        """Return whether a device is connected and not idle. Others may not know of it: the user may be INVISIBLE."""
        find_end = self._store.presence.find_end
        return any(
            device.gone_at_ms is None and device.idle_since_ms is None and find_end(device.server) is None
            for device in record.devices
        )

    async def _read_presences(self, users: Sequence[UserId]) -> dict[UserId, PresenceRecord]:
        found: dict[UserId, PresenceRecord] = {}
        for start in range(0, len(users), _USERS_AT_ONCE):
            found |= await self._store.presence.read(users[start : start + _USERS_AT_ONCE])
        return found

    async def _read_sessions(self, intents: Iterable[TakenIntent]) -> dict[Place, Session]:
        """Return the sessions of the intents, and those of the conversations that threads are in."""
        wanted: dict[ConversationId, list[UserId]] = {}
        for each in intents:
            for name in {each.conversation, without_thread(each.conversation)}:
                wanted.setdefault(name, []).append(each.user)
        answers = await asyncio.gather(*(self._store.sessions_of_users.find(n, users) for n, users in wanted.items()))
        return {
            (user, name): session
            for name, found in zip(wanted, answers, strict=True)
            for user, session in found.items()
        }

    async def _read_gateways(
        self, intents: Iterable[TakenIntent], sessions: Mapping[Place, Session]
    ) -> dict[Place, Session]:
        """Return the gateways of the subBizs that conversations are in, for each intent. Nothing is read if none is."""
        inside: dict[ConversationId, list[Place]] = {}
        for each in intents:
            session = sessions.get((each.user, each.conversation))
            if session is not None and session.sub_biz is not None:
                inside.setdefault(gateway_id(session.sub_biz), []).append((each.user, each.conversation))
        found: dict[Place, Session] = {}
        for gateway, places in inside.items():
            of_users = await self._store.sessions_of_users.find(gateway, list({user for user, _ in places}))
            found |= {place: of_users[place[0]] for place in places if place[0] in of_users}
        return found

    async def _read_messages(self, intents: Iterable[TakenIntent]) -> dict[ConversationId, Sequence[Message]]:
        """Return the messages that the intents of each conversation are about, read once for all users."""
        ranges: dict[ConversationId, tuple[int, int]] = {}
        for each in intents:
            intent = each.intent
            starts = [intent.first] if intent.is_pending else []
            if intent.shown:
                starts.append(intent.shown - _MESSAGES_BEFORE)
            if not starts:
                # Redis has lost the record, and the conversation does not exist any more.
                continue
            first, newest = max(min(starts), 1), max(intent.newest, intent.shown)
            known = ranges.get(each.conversation, (first, newest))
            ranges[each.conversation] = min(first, known[0]), max(newest, known[1])
        long = [name for name, (first, newest) in ranges.items() if newest - first >= _FEW_MESSAGES]
        places = [
            (name, seq)
            for name, (first, newest) in ranges.items()
            if newest - first < _FEW_MESSAGES
            for seq in range(first, newest + 1)
        ]
        parts = [places[start : start + _PLACES_AT_ONCE] for start in range(0, len(places), _PLACES_AT_ONCE)]
        few, many = await asyncio.gather(
            asyncio.gather(*map(self._store.messages.find_many, parts)),
            asyncio.gather(*(read_messages(self._store, name, *ranges[name]) for name in long)),
        )
        found: dict[ConversationId, Sequence[Message]] = dict(zip(long, many, strict=True))
        single: dict[ConversationId, list[Message]] = {}
        for part in few:
            for (name, _), message in sorted(part.items()):
                single.setdefault(name, []).append(message)
        return found | single

    async def _read_older_mentions(
        self,
        intents: Iterable[TakenIntent],
        sessions: Mapping[Place, Session],
        messages: Mapping[ConversationId, Sequence[Message]],
    ) -> dict[Place, list[Message]]:
        """Return unread messages that mention users, and came in a burst before those that were read, in order.

        Nothing is read if there are none.
        """
        wanted: dict[Place, list[int]] = {}
        for each in intents:
            session, read = sessions.get((each.user, each.conversation)), messages.get(each.conversation)
            if session is None or not read or not each.intent.is_pending or each.intent.first >= read[0].seq:
                continue
            seqs = [seq for seq in session.mentions if each.intent.first <= seq < read[0].seq]
            if seqs:
                wanted[each.user, each.conversation] = seqs[-_OLDER_MENTIONS:]
        places = list({(name, seq) for (_, name), seqs in wanted.items() for seq in seqs})
        parts = [places[start : start + _PLACES_AT_ONCE] for start in range(0, len(places), _PLACES_AT_ONCE)]
        found: dict[tuple[ConversationId, int], Message] = {}
        for part in await asyncio.gather(*map(self._store.messages.find_many, parts)):
            found |= part
        return {
            (user, name): [found[name, seq] for seq in seqs if (name, seq) in found]
            for (user, name), seqs in wanted.items()
        }

    async def _read_workspaces(self, intents: Iterable[TakenIntent]) -> _InWorkspaces:
        users: dict[WorkspaceId, set[UserId]] = {}
        for each in intents:
            workspace = _workspace_of(each.conversation)
            if workspace is not None:
                users.setdefault(workspace, set()).add(each.user)
        notifications: dict[tuple[UserId, WorkspaceId], WorkspaceNotifications] = {}
        roles: dict[tuple[UserId, WorkspaceId], frozenset[RoleId]] = {}
        for workspace, members in users.items():
            found = await self._store.user_workspaces.find_notifications_of(members, workspace)
            notifications |= {(user, workspace): each for user, each in found.items()}
            roles |= {(user, workspace): each for user, each in (await self._read_roles(workspace, members)).items()}
        return _InWorkspaces(notifications, roles)

    async def _read_roles(self, workspace: WorkspaceId, users: Collection[UserId]) -> dict[UserId, frozenset[RoleId]]:
        version = await self._store.policies.current_version(workspace)
        facts = await self._store.policies.find_members(workspace, users, version or 0)
        return {user: each.roles for user, each in facts.items()}


def _workspace_of(conversation: ConversationId) -> WorkspaceId | None:
    parent = without_thread(conversation)
    return workspace_of_channel(parent) if kind_of(parent) is ConversationKind.CHANNEL else None


def _in_force(
    each: TakenIntent, sessions: Mapping[Place, Session], inside: _InWorkspaces, settings: NotificationSettings
) -> Notifications:
    """Return the settings in force: of the conversation, of the one that a thread is in, the workspace, the user."""
    workspace = _workspace_of(each.conversation)
    larger = inside.notifications.get((each.user, workspace), _NOT_SET) if workspace is not None else _NOT_SET
    levels, suppressing = [larger.level], [larger.suppresses_everyone]
    for name in (without_thread(each.conversation), each.conversation):
        session = sessions.get((each.user, name))
        if session is not None:
            levels.append(session.notification_level)
            suppressing.append(session.suppresses_everyone)
    level = next((level for level in reversed(levels) if level is not None), settings.level)
    return Notifications(level, next((each for each in reversed(suppressing) if each is not None), False), settings)
