"""The rule that decides which messages notify a user. Pure: it uses nothing but its argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo

from resolvers.push.worker.keywords import find_keyword
from store.base.ids import ConversationKind, UserId, kind_of
from store.base.workspace_ids import RoleId
from store.messages.message import Message
from store.notifications.notification_settings import NotificationSettings
from store.push.push_intents import PushIntent
from store.sessions.fields import NotificationLevel
from store.sessions.session import Session

MAX_AGE_MS = 3_600_000
"""Age of a message from which on nobody is notified of it: a late push is worse than none. The delay of the user is
added."""


class Verdict(StrEnum):
    """The outcome of a decision."""

    SHOW = "show"
    WAIT = "wait"
    """A device is in use, or a notification was shown a moment ago."""
    READ = "read"
    MUTED = "muted"
    LEVEL = "level"
    """The notification level does not allow it."""
    DO_NOT_DISTURB = "do_not_disturb"
    IN_USE = "in_use"
    """It was shown on a device in use."""
    NO_ACCESS = "no_access"
    TOO_OLD = "too_old"
    NOTHING = "nothing"
    """Only messages of the user, silent ones, SYSTEM messages, recalled ones, or those of blocked senders."""


@dataclass(frozen=True, slots=True)
class Notifications:
    """The settings that are in force for a user in a conversation.

    Attributes:
        level: Of the conversation, else of the larger ones, else of the user.
        suppresses_everyone: Mentions of everybody are no mentions.
        settings: Of the user.
    """

    level: NotificationLevel = NotificationLevel.ALL
    suppresses_everyone: bool = False
    settings: NotificationSettings = field(default_factory=NotificationSettings)


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that a decision depends on.

    Attributes:
        user: The user.
        intent: The intent.
        now_ms: The present time.
        session: The user's session of the conversation; None: there is none.
        gateway: The user's session of the subBiz that the conversation is in.
        messages: Messages of the conversation, in order: those to decide on, and those that may be shown.
        notifications: The settings in force.
        roles: The user's roles in the workspace.
        is_in_use: A device of the user is connected and not idle.
        is_banned: The user is banned from the deployment.
        is_disturbable: False if the user's presence is DND.
        blocked: Senders that the user has blocked.
    """

    user: UserId
    intent: PushIntent
    now_ms: int
    session: Session | None
    messages: Sequence[Message]
    notifications: Notifications = field(default_factory=Notifications)
    roles: frozenset[RoleId] = frozenset()
    is_in_use: bool = False
    is_banned: bool = False
    is_disturbable: bool = True
    blocked: frozenset[UserId] = frozenset()
    gateway: Session | None = None


@dataclass(frozen=True, slots=True)
class PushDecision:
    """A decision.

    Attributes:
        verdict: What is done.
        message: SHOW: the message to show.
        removes: The notification that is shown has to be removed.
        wait_until_ms: WAIT: when to decide again.
        first: WAIT: first seq that is still to be decided on.
    """

    verdict: Verdict
    message: Message | None = None
    removes: bool = False
    wait_until_ms: int = 0
    first: int = 0


def decide(case: Case) -> PushDecision:
    """Decide what to do for one user in one conversation."""
    verdict = _refuse_all(case)
    if verdict is not None:
        return PushDecision(verdict, removes=bool(case.intent.shown))
    read_seq = case.session.read_seq if case.session is not None else 0
    is_shown_recalled = any(m.seq == case.intent.shown and m.is_recalled for m in case.messages)
    removes = bool(case.intent.shown) and (read_seq >= case.intent.shown or is_shown_recalled)
    unread = [m for m in case.messages if m.seq > read_seq and (is_shown_recalled or _is_pending(case, m))]
    if not unread:
        return PushDecision(Verdict.READ, removes=removes)
    countable = [m for m in unread if _may_notify(case, m)]
    wanted = [m for m in countable if _is_wanted(case, m)]
    if not wanted:
        return PushDecision(Verdict.LEVEL if countable else Verdict.NOTHING, removes=removes)
    delay_ms = case.notifications.settings.delay_seconds * 1000
    recent = [m for m in wanted if case.now_ms - m.created_at_ms < MAX_AGE_MS + delay_ms]
    if not recent:
        return PushDecision(Verdict.TOO_OLD, removes=removes)
    if not case.is_disturbable or is_do_not_disturb_time(case.notifications.settings, case.now_ms):
        return PushDecision(Verdict.DO_NOT_DISTURB, removes=removes)
    return _show_or_wait(case, recent, removes=removes, replaces=is_shown_recalled)


def _show_or_wait(case: Case, messages: Sequence[Message], *, removes: bool, replaces: bool) -> PushDecision:
    """Decide when to show the newest of some messages."""
    if case.is_in_use and not replaces:
        delay_ms = case.notifications.settings.delay_seconds * 1000
        young = [m for m in messages if m.created_at_ms + delay_ms > case.now_ms]
        if not young:
            return PushDecision(Verdict.IN_USE, removes=removes)
        due_ms = max(young[0].created_at_ms + delay_ms, case.intent.cool_until_ms)
        return PushDecision(Verdict.WAIT, removes=removes, wait_until_ms=due_ms, first=young[0].seq)
    if case.now_ms < case.intent.cool_until_ms and not case.intent.is_retry and not replaces:
        until_ms = case.intent.cool_until_ms
        return PushDecision(Verdict.WAIT, removes=removes, wait_until_ms=until_ms, first=messages[0].seq)
    # The new notification replaces the shown one, so nothing has to be removed.
    return PushDecision(Verdict.SHOW, messages[-1])


def _refuse_all(case: Case) -> Verdict | None:
    """Return why nothing of the conversation may be shown; None: it may."""
    if case.is_banned:
        return Verdict.NO_ACCESS
    session = case.session
    if session is None:
        return None
    if session.frozen or session.dissolved or session.hidden:
        return Verdict.NO_ACCESS
    is_muted = _is_muted(session, case.now_ms) or (case.gateway is not None and _is_muted(case.gateway, case.now_ms))
    return Verdict.MUTED if is_muted else None


def _is_muted(session: Session, now_ms: int) -> bool:
    return session.muted and (session.muted_until_ms is None or session.muted_until_ms > now_ms)


def _is_pending(case: Case, message: Message) -> bool:
    return case.intent.is_pending and message.seq >= case.intent.first


def _may_notify(case: Case, message: Message) -> bool:
    """Return whether a message may notify anybody like the user. The only place that knows of blocked senders."""
    return (
        message.kind.countable
        and not message.is_silent
        and not message.is_recalled
        and message.sender != case.user
        and message.sender not in case.blocked
    )


def _is_wanted(case: Case, message: Message) -> bool:
    """Return whether the user wants to be notified of such a message here."""
    level = case.notifications.level
    if level is NotificationLevel.NONE:
        return False
    return (level is NotificationLevel.ALL and _gets_every_message(case, message)) or mentions(case, message)


def _gets_every_message(case: Case, message: Message) -> bool:
    """Return whether messages notify the user without a mention: in channels and threads only followers."""
    if kind_of(message.conversation) not in (ConversationKind.CHANNEL, ConversationKind.THREAD):
        return True
    return case.session is not None and case.session.follows


def mentions(case: Case, message: Message) -> bool:
    """Return whether a message mentions the user: by name, role, everybody, or a keyword."""
    if case.user in message.mentions or not case.roles.isdisjoint(message.mentioned_roles):
        return True
    if message.mentions_all and not case.notifications.suppresses_everyone and _gets_every_message(case, message):
        return True
    keywords = case.notifications.settings.keywords
    if not keywords or not message.text or not _gets_every_message(case, message):
        return False
    return find_keyword(message.text, keywords) is not None


def is_do_not_disturb_time(settings: NotificationSettings, now_ms: int) -> bool:
    """Return whether a time is within do not disturb. Equal ends are the whole day."""
    if settings.dnd_from is None or settings.dnd_to is None:
        return False
    local = datetime.fromtimestamp(now_ms / 1000, _zone(settings.time_zone))
    minute = local.hour * 60 + local.minute
    if settings.dnd_from < settings.dnd_to:
        return settings.dnd_from <= minute < settings.dnd_to
    return minute >= settings.dnd_from or minute < settings.dnd_to


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # The zone was known when it was set, perhaps to another server.
        return timezone(timedelta())
