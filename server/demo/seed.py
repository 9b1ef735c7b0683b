"""Fills an empty database with demo data."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from dataclasses import dataclass, field

from resolvers.base.app import Confab
from resolvers.groups.group_changes import invite_members, set_member_role
from resolvers.groups.group_creation import NewGroup, create_group
from resolvers.groups.group_rules import ADMIN
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.revising import edit_message, recall_message
from resolvers.messages.sending import send_message
from resolvers.pins.pinning import pin_message
from resolvers.sessions.reading import mark_read
from resolvers.sessions.receiving import ack_delivered
from resolvers.sessions.session_changes import assign_category, mute_session, pin_session, set_unread
from resolvers.users.callers import Caller, CallerRole
from resolvers.users.users import upsert_users
from server.demo.moderation_seed import ban_demo_spammer, open_demo_reports
from server.demo.workspace_seed import archive_demo_channels, create_demo_workspace, report_by_webhook
from server.demo.workspace_world import CHANNEL_STEPS, GENERAL, LAKE
from server.demo.world import (
    ALICE,
    BOOKS,
    DEMO_PEOPLE,
    GROUPS,
    MOMENTS,
    OFFICE,
    OTHERS,
    WITH_BOB,
    WITH_DAVE,
    WITH_ERIN,
    DemoGroup,
    Dialogue,
    ReadUpTo,
)
from server.services import open_services
from server.settings import UNLIMITED, Settings
from store.base.clock import SystemClock
from store.base.ids import ConversationId, UserId, message_id, private_id, thread_id
from store.deployment.chat_imports import ImportStore
from store.messages.message import Message, MessageKind
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, DEPLOYMENT

_START_WAIT_SECONDS = 60.0
"""A new MongoDB may take long to create its indexes on a busy machine."""


async def seed_demo(settings: Settings) -> bool:
    """Create the demo's people, groups, workspace and conversations, if there are no users. Returns whether it did.

    A complete demo is never created again. An interrupted one is completed by the next call. In a new deployment the
    messages are up to three days old. Raises StoreError.
    """
    is_new = await _is_new_deployment(settings)
    clock = _DemoClock(past=is_new)
    async with open_services(
        settings.model_copy(update=UNLIMITED), clock, start_wait_seconds=_START_WAIT_SECONDS
    ) as services:
        imports = ImportStore(services.app.store.mongo)
        wanted = await imports.begin_demo()
        if wanted:
            await _DemoBuilder(services.app, clock, settings.data_center, resumed=not is_new).fill()
            await imports.end_demo()
        return wanted


class _DemoClock:
    """The machine's clock, optionally set back by some minutes."""

    def __init__(self, *, past: bool) -> None:
        self._clock = SystemClock()
        self._past = past
        self._offset_ms = 0
        self.set_back(MOMENTS[0][0])

    def set_back(self, minutes_ago: int) -> None:
        self._offset_ms = minutes_ago * 60_000 if self._past else 0

    def now_ms(self) -> int:
        return self._clock.now_ms() - self._offset_ms


async def _is_new_deployment(settings: Settings) -> bool:
    """Return whether no server has used this deployment, so that its clock may still start in the past."""
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        return await mongo.find_one(DEPLOYMENT, {}) is None
    finally:
        await mongo.close()


@dataclass
class _DemoBuilder:
    """Creates the demo. Every step may be repeated without effect.

    With `resumed`, an earlier run may have created a part of it. Its idempotency keys may have expired, so messages and
    groups are looked up first.
    """

    app: Confab
    clock: _DemoClock
    data_center: int
    resumed: bool
    groups: dict[str, ConversationId] = field(default_factory=dict)
    """Groups by name, and channels by name with `#`."""
    sent: defaultdict[ConversationId, list[Message]] = field(default_factory=lambda: defaultdict(list))

    async def fill(self) -> None:
        await upsert_users(self.app, Caller(ALICE, CallerRole.SERVICE, math.inf), [*DEMO_PEOPLE, *OTHERS])
        for group in GROUPS:
            self.groups[group.name] = await self._create_group(group)
            if group.admin is not None:
                await set_member_role(self.app, group.owner, self.groups[group.name], group.admin, ADMIN)
        channels = await create_demo_workspace(self.app)
        self.groups |= channels
        for number, (minutes_ago, steps) in enumerate(MOMENTS):
            self.clock.set_back(minutes_ago)
            # A lease covers the ids of some seconds, and the clock has jumped.
            await self.app.store.deployment.worker_numbers.lease(self.app.store.ids, self.data_center)
            if number == 1:
                await self._add_late_members()
            if number == 3:
                await ban_demo_spammer(self.app, channels[GENERAL])
            if number == 5:
                await open_demo_reports(self.app, channels[GENERAL], self.sent[channels[LAKE]][0])
            steps_by_conversation: dict[ConversationId, list[Dialogue | ReadUpTo]] = defaultdict(list)
            for step in (*steps, *CHANNEL_STEPS.get(number, ())):
                steps_by_conversation[self._find_conversation(step.where, step.sub_biz)].append(step)
            try:
                async with asyncio.TaskGroup() as tasks:
                    for conversation, its_steps in steps_by_conversation.items():
                        tasks.create_task(self._run_steps(conversation, its_steps))
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None
        await report_by_webhook(self.app, channels[LAKE])
        await archive_demo_channels(self.app, channels)
        await self._arrange_sessions()

    async def _create_group(self, group: DemoGroup) -> ConversationId:
        fields = {"k": "G", "own": group.owner, "name": group.name}
        row = await self.app.store.mongo.find_one(CONVERSATIONS, fields) if self.resumed else None
        if row is not None:
            return ConversationId(row["_id"])
        new = NewGroup(group.name, None, group.members, full_history=group.full_history, key=f"demo {group.name}")
        return (await create_group(self.app, group.owner, new)).head.conversation

    def _find_conversation(self, where: str, sub_biz: str | None) -> ConversationId:
        if where in self.groups:
            return self.groups[where]
        one, other = (UserId(name) for name in where.split())
        return private_id(one, other, sub_biz)

    async def _add_late_members(self) -> None:
        for group in GROUPS:
            if group.later is not None:
                await invite_members(self.app, group.owner, self.groups[group.name], [group.later])

    async def _run_steps(self, conversation: ConversationId, steps: list[Dialogue | ReadUpTo]) -> None:
        for step in steps:
            if isinstance(step, ReadUpTo):
                seq = self.sent[conversation][-1 - step.short_of].seq
                await (ack_delivered if step.received else mark_read)(self.app, step.user, conversation, seq)
            else:
                for line in step.lines.strip().splitlines():
                    await self._send_line(step, conversation, line)

    async def _send_line(self, dialogue: Dialogue, conversation: ConversationId, line: str) -> None:
        name, _, text = line.partition(": ")
        sender, parent = UserId(name), None
        if dialogue.under is not None:
            parent = next(message for message in self.sent[conversation] if message.text == dialogue.under)
            conversation = thread_id(conversation, parent.seq)
        sent = self.sent[conversation]
        recalled = text.endswith(" =x")
        pinned = text.endswith(" =p")
        text, _, edited = text.removesuffix(" =x").removesuffix(" =p").partition(" => ")
        replies, text = text.startswith(">"), text.removeprefix(">")
        mention, text = text[1:].split(" ", 1) if text.startswith("@") else ("", text)
        in_group = dialogue.where in self.groups
        peer = next((user for user in dialogue.where.split() if user != sender), None)
        new = NewMessage(
            None if in_group or parent else peer,
            conversation if in_group and not parent else None,
            text,
            kind=MessageKind.BOT_COMMAND if text.startswith("/") else MessageKind.TEXT,
            mentions=(mention,) if mention not in ("", "all") else (),
            mention_all=mention == "all",
            reply_to=message_id(sent[-1].id) if replies else None,
            key=f"demo {dialogue.where} {dialogue.sub_biz or ''} {dialogue.under or ''} {len(sent)}",
            sub_biz=dialogue.sub_biz,
            thread_of=message_id(parent.id) if parent else None,
        )
        assert new.key is not None
        message = await self.app.store.messages.find_by_key(conversation, sender, new.key, 0) if self.resumed else None
        if message is None:
            message = (await send_message(self.app, sender, new)).message
        sent.append(message)
        if edited:
            await edit_message(self.app, sender, message_id(message.id), edited)
        if recalled:
            owner = next(group.owner for group in GROUPS if group.name == dialogue.where)
            await recall_message(self.app, owner, message_id(message.id))
        if pinned:
            # Alice may pin in her private conversations, her groups and her workspace.
            await pin_message(self.app, ALICE, message_id(message.id))

    async def _arrange_sessions(self) -> None:
        """Pin, mute and categorize sessions of Alice."""
        app, erin, dave = self.app, self._find_conversation(WITH_ERIN, None), self._find_conversation(WITH_DAVE, None)
        await pin_session(app, ALICE, self._find_conversation(WITH_BOB, None), 1)
        await mute_session(app, ALICE, self.groups[BOOKS], muted=True, until_ms=None)
        await assign_category(app, ALICE, [dave, self.groups[OFFICE]], "work")
        await assign_category(app, ALICE, [erin], "family")
        await set_unread(app, ALICE, erin)
