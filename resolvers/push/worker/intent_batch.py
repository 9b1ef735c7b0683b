"""Decides on a batch of due intents, and sends their pushes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.conversations.message_viewers import select_viewers
from resolvers.push.push_service import PushMessage
from resolvers.push.push_tags import push_tag
from resolvers.push.worker.case_reader import CaseReader
from resolvers.push.worker.content import Heading, NotificationTexts
from resolvers.push.worker.decision import Case, PushDecision, Verdict, decide
from resolvers.push.worker.push_sender import PushSender, SentPush
from resolvers.sessions.attention import attention_from
from store.base.ids import MessageId, UserId
from store.devices.device import Device
from store.messages.message import Message
from store.push.push_intents import QUIET_INTERVAL_MS, PushIntent, SettledIntent, TakenIntent

COOL_DOWN_MS = 5_000
"""Time after a notification in which further messages wait. They are shown together when it ends."""

REMEMBERED_MS = 3 * 24 * 3_600_000
"""Time for which a notification can be removed after it was shown."""

_BADGES_AT_ONCE = 16
_UNKNOWN_MESSAGES = 20
"""Messages that are decided on if Redis has lost the record of an intent."""

_MOST_QUIET_ATTEMPTS = 3
MOST_REMOVED = 20
"""Notifications of a user that are removed at the same time: each takes a quiet push. Others wait for an interval."""


@dataclass(frozen=True, slots=True)
class DuePush:
    """A decision that needs a push.

    Attributes:
        taken: The intent.
        case: Everything that the decision depended on.
        decision: The decision.
        devices: The user's devices that take pushes.
        heading: Names to show, for a message.
    """

    taken: TakenIntent
    case: Case
    decision: PushDecision
    devices: Sequence[Device]
    heading: Heading | None = None


class IntentBatch:
    """Decides, and carries decisions out. All methods raise StoreError; then the intents are due again later."""

    def __init__(self, app: Confab, sender: PushSender, texts: NotificationTexts) -> None:
        self._app = app
        self._store = app.store
        self._sender = sender
        self._texts = texts
        self._reader = CaseReader(app.store, app.bans)
        self._badges = asyncio.Semaphore(_BADGES_AT_ONCE)
        self.verdicts: Counter[Verdict] = Counter()
        """Numbers of decisions of this process, by verdict."""

    async def decide(self, taken: Sequence[TakenIntent]) -> list[DuePush]:
        """Decide on intents. Settle those that need no push, and return the others."""
        intents = await self._complete(taken)
        cases = await self._reader.read(intents)
        decisions = await self._refuse_without_access(cases, [decide(case) for case in cases])
        self.verdicts.update(decision.verdict for decision in decisions)
        decided = list(zip(intents, cases, decisions, strict=True))
        pushed = [(t, c, d) for t, c, d in decided if d.verdict is Verdict.SHOW or d.removes]
        settled = [self._settled(t, d) for t, _, d in decided if not (d.verdict is Verdict.SHOW or d.removes)]
        await self._store.push_intents.settle(settled)
        if not pushed:
            return []
        devices = await self._store.devices.list_pushed({each.user for each, _, _ in pushed})
        messages = [d.message for _, _, d in pushed if d.message is not None]
        headings = await self._texts.read_headings(messages) if messages else {}
        return [
            DuePush(
                each,
                case,
                decision,
                devices.get(each.user, ()),
                headings[each.conversation, decision.message.seq] if decision.message is not None else None,
            )
            for each, case, decision in pushed
        ]

    async def carry_out(self, pushes: Sequence[DuePush]) -> None:
        """Send the pushes of one user, and settle their intents."""
        await asyncio.gather(*(self._show(each) for each in pushes if each.decision.verdict is Verdict.SHOW))
        removals = [each for each in pushes if each.decision.verdict is not Verdict.SHOW]
        if removals:
            await self._store.push_intents.settle(await self._remove_all(removals))

    async def _show(self, each: DuePush) -> None:
        await self._store.push_intents.settle([await self._notify(each)])

    async def _notify(self, each: DuePush) -> SettledIntent:
        """Send a notification to the devices that have to get it."""
        message, intent = each.decision.message, each.taken.intent
        assert message is not None
        devices = [d for d in each.devices if not intent.is_retry or d.id in intent.left]
        held = [self._sender.hold(device, intent.left.get(device.id, 0)) for device in devices]
        sent: Mapping[str, SentPush] = {d.id: push for d, push in zip(devices, held, strict=True) if push is not None}
        if len(sent) < len(devices):
            sent = await self._send_notification(each, message, devices)
        shown = message.seq if any(push.may_be_shown for push in sent.values()) else intent.shown
        now_ms = self._store.clock.now_ms()
        left = {device: push.attempts for device, push in sent.items() if push.retry_at_ms is not None}
        cools_down = any(push.is_accepted for push in sent.values())
        after = PushIntent(shown=shown, cool_until_ms=now_ms + COOL_DOWN_MS if cools_down else now_ms)
        if not left:
            return self._remember(each.taken, after)
        after = replace(after, first=intent.first or message.seq, newest=max(intent.newest, message.seq), left=left)
        retry_ms = min(push.retry_at_ms for push in sent.values() if push.retry_at_ms is not None)
        return SettledIntent(each.taken, replace(after, tried=after.newest), retry_ms)

    async def _send_notification(
        self, each: DuePush, message: Message, devices: Iterable[Device]
    ) -> Mapping[str, SentPush]:
        assert each.heading is not None
        heading, shows_text = each.heading, each.case.notifications.settings.shows_preview
        badge, tag = await self._count(each.taken.user), push_tag(each.taken.conversation)
        pushes = []
        for device in devices:
            text = self._texts.compose(message, heading, device.locale, shows_text=shows_text)
            pushes.append((device, PushMessage(each.taken.conversation, tag, badge, text.title, text.body)))
        return await self._send(pushes, each.taken.intent)

    async def _remove_all(self, removals: Sequence[DuePush]) -> list[SettledIntent]:
        """Have the devices of one user remove notifications, or wait until the user may be sent quiet pushes again.

        All share one claim, so that many conversations that were read at the same time do not wait for each other.
        """
        intents, user = self._store.push_intents, removals[0].taken.user
        wait_ms = await intents.claim_quiet(user)
        present, later = ([], removals) if wait_ms else (removals[:MOST_REMOVED], removals[MOST_REMOVED:])
        badge = await self._count(user) if present else 0
        settled = list(await asyncio.gather(*(self._remove(each, badge) for each in present)))
        due_ms = wait_ms or QUIET_INTERVAL_MS
        return settled + [self._remove_later(each, self._removed_from(each), due_ms) for each in later]

    async def _remove(self, each: DuePush, badge: int) -> SettledIntent:
        """Send the quiet push for one notification to all devices, or to those that the last one did not reach."""
        taken, intent = each.taken, self._removed_from(each)
        quiet = PushMessage(taken.conversation, push_tag(taken.conversation), badge, is_quiet=True)
        devices = [d for d in each.devices if not intent.left or d.id in intent.left]
        sent = await self._send([(device, quiet) for device in devices], intent)
        left = {device: push.attempts for device, push in sent.items() if push.retry_at_ms is not None}
        if left and max(left.values()) < _MOST_QUIET_ATTEMPTS:
            retry_ms = max(push.retry_at_ms or 0 for push in sent.values()) - self._store.clock.now_ms()
            return self._remove_later(each, replace(intent, left=left), retry_ms)
        return self._settled(taken, each.decision, shown=0)

    def _removed_from(self, each: DuePush) -> PushIntent:
        """Return an intent whose `left` is about its last quiet push, not about a notification."""
        intent = each.taken.intent
        return intent if intent.is_retry and not intent.is_pending else replace(intent, left={})

    def _remove_later(self, each: DuePush, intent: PushIntent, wait_ms: int) -> SettledIntent:
        pending = self._settled(each.taken, each.decision)
        due_ms = self._store.clock.now_ms() + wait_ms
        after = pending.after or PushIntent()
        after = replace(after, shown=intent.shown, cool_until_ms=intent.cool_until_ms)
        if after.is_pending:
            # The next notification is for all devices, also for those that have got the quiet push.
            return SettledIntent(pending.taken, after, min(due_ms, pending.due_ms))
        after = replace(after, left=intent.left)
        return SettledIntent(pending.taken, replace(after, tried=after.newest), due_ms)

    def _settled(self, taken: TakenIntent, decision: PushDecision, shown: int | None = None) -> SettledIntent:
        """Return the intent after a decision that shows nothing. shown: seq on the devices then; None: as before."""
        intent = taken.intent
        after = PushIntent(shown=intent.shown if shown is None else shown, cool_until_ms=intent.cool_until_ms)
        if decision.verdict is Verdict.WAIT:
            return SettledIntent(
                taken, replace(after, first=decision.first, newest=intent.newest), decision.wait_until_ms
            )
        return self._remember(taken, after)

    def _remember(self, taken: TakenIntent, after: PushIntent) -> SettledIntent:
        """Keep what is shown for a while, so that it can be removed."""
        forget_ms = after.cool_until_ms + REMEMBERED_MS
        if not after.shown or forget_ms <= self._store.clock.now_ms():
            return SettledIntent(taken)
        return SettledIntent(taken, after, forget_ms)

    async def _send(self, pushes: Iterable[tuple[Device, PushMessage]], intent: PushIntent) -> Mapping[str, SentPush]:
        """Send pushes to devices, all at the same time."""
        listed = list(pushes)
        sent = await asyncio.gather(
            *(self._sender.send(device, message, intent.left.get(device.id, 0)) for device, message in listed)
        )
        return {device.id: push for (device, _), push in zip(listed, sent, strict=True)}

    async def _count(self, user: UserId) -> int:
        async with self._badges:
            totals = await self._store.sessions_of_users.read_totals(user)
            attention = await attention_from(self._app, user, totals)
        return attention.unread + attention.mentions

    async def _refuse_without_access(
        self, cases: Sequence[Case], decisions: Sequence[PushDecision]
    ) -> list[PushDecision]:
        """Replace decisions to show a message that the user may not read now."""
        users: dict[MessageId, list[UserId]] = {}
        messages: dict[MessageId, Message] = {}
        for case, decision in zip(cases, decisions, strict=True):
            if decision.message is not None:
                messages[decision.message.id] = decision.message
                users.setdefault(decision.message.id, []).append(case.user)
        answers = await asyncio.gather(*(select_viewers(self._store, messages[id], some) for id, some in users.items()))
        viewers = {id: set(found) for id, found in zip(users, answers, strict=True)}
        return [
            PushDecision(Verdict.NO_ACCESS, removes=bool(case.intent.shown))
            if decision.message is not None and case.user not in viewers[decision.message.id]
            else decision
            for case, decision in zip(cases, decisions, strict=True)
        ]

    async def _complete(self, taken: Sequence[TakenIntent]) -> list[TakenIntent]:
        """Return the intents. If Redis has lost the record of one, it is about the newest messages."""
        lost = {each.conversation for each in taken if not each.taken.record}
        if not lost:
            return list(taken)
        heads = await self._store.conversations.find_many(lost)
        found = []
        for each in taken:
            head = heads.get(each.conversation)
            if not each.taken.record and head is not None and head.newest is not None:
                newest = head.newest.seq
                each = replace(each, intent=PushIntent(max(1, newest - _UNKNOWN_MESSAGES + 1), newest))
            found.append(each)
        return found
