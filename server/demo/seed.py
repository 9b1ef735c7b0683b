"""A small demo in an empty database, so that a newcomer's first query shows something, and the chat in the browser everything."""

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
from resolvers.sessions.reading import mark_read
from resolvers.sessions.receiving import ack_delivered
from resolvers.sessions.session_changes import assign_category, mute_session, pin_session, set_unread
from resolvers.users.callers import Caller, CallerRole
from resolvers.users.users import upsert_users
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
from store.base.ids import ConversationId, UserId, message_id, private_id
from store.deployment.chat_imports import ImportStore
from store.deployment.redis_generations import DEPLOYMENT
from store.messages.message import Message, MessageKind
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS


async def seed_demo(settings: Settings) -> bool:
    """Makes the demo's people, their groups and conversations, if there are no users at all.

    Answers whether it did. Once the demo is complete it is never made again; where it was stopped half way, the next call
    completes it. Messages lie up to three days back where no server has ever told this deployment the time. Raises StoreError.
    """
    timeless = await _is_timeless(settings)
    clock = _DemoClock(past=timeless)
    async with open_services(settings.model_copy(update=UNLIMITED), clock) as services:
        imports = ImportStore(services.app.store.mongo)
        wanted = await imports.begin_demo()
        if wanted:
            await _DemoBuilder(services.app, clock, settings.data_center, again=not timeless).fill()
            await imports.end_demo()
        return wanted


class _DemoClock:
    """The machine's clock, or what it showed some minutes ago."""

    def __init__(self, *, past: bool) -> None:
        self._clock = SystemClock()
        self._past = past
        self._ago_ms = 0
        self.go_to(MOMENTS[0][0])

    def go_to(self, minutes_ago: int) -> None:
        self._ago_ms = minutes_ago * 60_000 if self._past else 0

    def now_ms(self) -> int:
        return self._clock.now_ms() - self._ago_ms


async def _is_timeless(settings: Settings) -> bool:
    """Time goes forward only, in a deployment that was told it once."""
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        return await mongo.find_one(DEPLOYMENT, {}) is None
    finally:
        await mongo.close()


@dataclass
class _DemoBuilder:
    """One run through the demo. Each step may be repeated: what was done before stays as it is. `again`: something may have been, by keys
    that stand for nothing any more, as they are days old."""

    app: Confab
    clock: _DemoClock
    data_center: int
    again: bool
    groups: dict[str, ConversationId] = field(default_factory=dict)
    said: defaultdict[ConversationId, list[Message]] = field(default_factory=lambda: defaultdict(list))

    async def fill(self) -> None:
        await upsert_users(self.app, Caller(ALICE, CallerRole.SERVICE, math.inf), [*DEMO_PEOPLE, *OTHERS])
        for group in GROUPS:
            self.groups[group.name] = await self._group(group)
            if group.admin is not None:
                await set_member_role(self.app, group.owner, self.groups[group.name], group.admin, ADMIN)
        for number, (minutes_ago, steps) in enumerate(MOMENTS):
            self.clock.go_to(minutes_ago)
            # Numbers are good for some seconds' ids, and the clock has jumped.
            await self.app.store.deployment.worker_numbers.lease(self.app.store.ids, self.data_center)
            if number == 1:
                await self._let_in()
            lanes: dict[ConversationId, list[Dialogue | ReadUpTo]] = defaultdict(list)
            for step in steps:
                lanes[self._place(step.where, step.sub_biz)].append(step)
            try:
                async with asyncio.TaskGroup() as tasks:
                    for place, lane in lanes.items():
                        tasks.create_task(self._go_through(place, lane))
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None
        await self._arrange()

    async def _group(self, group: DemoGroup) -> ConversationId:
        made = {"k": "G", "own": group.owner, "name": group.name}
        row = await self.app.store.mongo.find_one(CONVERSATIONS, made) if self.again else None
        if row is not None:
            return ConversationId(row["_id"])
        new = NewGroup(group.name, None, group.members, full_history=group.full_history, key=f"demo {group.name}")
        return (await create_group(self.app, group.owner, new)).head.conversation

    def _place(self, where: str, sub_biz: str | None) -> ConversationId:
        if where in self.groups:
            return self.groups[where]
        one, other = (UserId(name) for name in where.split())
        return private_id(one, other, sub_biz)

    async def _let_in(self) -> None:
        for group in GROUPS:
            if group.later is not None:
                await invite_members(self.app, group.owner, self.groups[group.name], [group.later])

    async def _go_through(self, place: ConversationId, steps: list[Dialogue | ReadUpTo]) -> None:
        for step in steps:
            if isinstance(step, ReadUpTo):
                seq = self.said[place][-1 - step.short_of].seq
                await (ack_delivered if step.received else mark_read)(self.app, step.user, place, seq)
            else:
                for line in step.lines.strip().splitlines():
                    await self._say(step, place, line)

    async def _say(self, talk: Dialogue, place: ConversationId, line: str) -> None:
        name, _, text = line.partition(": ")
        sender, said = UserId(name), self.said[place]
        recalled = text.endswith(" =x")
        text, _, edited = text.removesuffix(" =x").partition(" => ")
        replies, text = text.startswith(">"), text.removeprefix(">")
        mention, text = text[1:].split(" ", 1) if text.startswith("@") else ("", text)
        in_group = talk.where in self.groups
        peer = next((user for user in talk.where.split() if user != sender), None)
        new = NewMessage(
            None if in_group else peer,
            place if in_group else None,
            text,
            kind=MessageKind.BOT_COMMAND if text.startswith("/") else MessageKind.TEXT,
            mentions=(mention,) if mention not in ("", "all") else (),
            mention_all=mention == "all",
            reply_to=message_id(said[-1].id) if replies else None,
            key=f"demo {talk.where} {talk.sub_biz or ''} {len(said)}",
            sub_biz=talk.sub_biz,
        )
        assert new.key is not None
        message = await self.app.store.messages.find_by_key(place, sender, new.key, 0) if self.again else None
        if message is None:
            message = (await send_message(self.app, sender, new)).message
        said.append(message)
        if edited:
            await edit_message(self.app, sender, message_id(message.id), edited)
        if recalled:
            owner = next(group.owner for group in GROUPS if group.name == talk.where)
            await recall_message(self.app, owner, message_id(message.id))

    async def _arrange(self) -> None:
        """Alice's list as she likes it."""
        app, erin, dave = self.app, self._place(WITH_ERIN, None), self._place(WITH_DAVE, None)
        await pin_session(app, ALICE, self._place(WITH_BOB, None), 1)
        await mute_session(app, ALICE, self.groups[BOOKS], muted=True, until_ms=None)
        await assign_category(app, ALICE, [dave, self.groups[OFFICE]], "work")
        await assign_category(app, ALICE, [erin], "family")
        await set_unread(app, ALICE, erin)
