"""The rule of what a user is notified of, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from resolvers.push.worker.decision import Case, Notifications, PushDecision, Verdict, decide, is_do_not_disturb_time
from store.base.ids import ConversationId, MessageId, UserId
from store.base.snowflakes import first_id_at
from store.base.workspace_ids import RoleId
from store.messages.message import Message, MessageKind
from store.messages.system_events import CUSTOM
from store.notifications.notification_settings import NotificationSettings
from store.push.push_intents import PushIntent
from store.sessions.fields import NotificationLevel, record_of
from store.sessions.session import Session
from tests.clock import START_MS

BOB, ALICE = UserId("bob"), UserId("alice")
GROUP, CHANNEL = ConversationId("g_7"), ConversationId("c_7.8")
ROLE = RoleId("r_7.9")
SECOND = 1_000


def message(seq: int = 5, age_s: float = 1, **fields: Any) -> Message:
    id = MessageId(first_id_at(round(START_MS - age_s * SECOND)) + seq)
    given = {"conversation": GROUP, "sender": ALICE, "kind": MessageKind.TEXT, "text": f"text {seq}"} | fields
    return Message(id, seq=seq, n=seq, **given)


def session(conversation: ConversationId = GROUP, **fields: Any) -> Session:
    return Session(
        BOB, conversation, record_of(**{"write_seq": 9, "n": 9, "acknowledged_seq": 4, "read_n": 4} | fields)
    )


def case(*messages: Message, **fields: Any) -> Case:
    given = {"session": session(), "intent": PushIntent(5, 9)} | fields
    return Case(BOB, now_ms=START_MS, messages=messages or (message(),), **given)


def in_force(level: str = "ALL", *, suppresses: bool = False, **settings: Any) -> Notifications:
    return Notifications(NotificationLevel(level), suppresses, NotificationSettings(**settings))


MENTIONS = in_force("MENTIONS")
IN_CHANNEL = {"conversation": CHANNEL}

CASES = {
    "a message": (case(), Verdict.SHOW),
    "read": (case(session=session(acknowledged_seq=5)), Verdict.READ),
    "read on after the push was noted": (case(session=session(acknowledged_seq=9)), Verdict.READ),
    "deleted": (case(session=session(deleted_seq=9, deleted_n=9)), Verdict.READ),
    "muted": (case(session=session(muted=True)), Verdict.MUTED),
    "muted until later": (case(session=session(muted=True, muted_until_ms=START_MS + 1)), Verdict.MUTED),
    "mute that has ended": (case(session=session(muted=True, muted_until_ms=START_MS)), Verdict.SHOW),
    "former member": (case(session=session(last_readable_seq=9)), Verdict.NO_ACCESS),
    "ended group": (case(session=session(dissolved=True)), Verdict.NO_ACCESS),
    "banned from the deployment": (case(is_banned=True), Verdict.NO_ACCESS),
    "own message": (case(message(sender=BOB)), Verdict.NOTHING),
    "silent message": (case(message(is_silent=True)), Verdict.NOTHING),
    "SYSTEM message": (case(message(kind=MessageKind.SYSTEM, system_event=CUSTOM)), Verdict.NOTHING),
    "recalled message": (case(message(text=None, recalled_at_ms=START_MS)), Verdict.NOTHING),
    "blocked sender": (case(blocked=frozenset({ALICE})), Verdict.NOTHING),
    "bot command": (case(message(kind=MessageKind.BOT_COMMAND)), Verdict.SHOW),
    "too old": (case(message(age_s=3_610)), Verdict.TOO_OLD),
    "just not too old": (case(message(age_s=3_609)), Verdict.SHOW),
    "the longest delay": (
        case(message(age_s=3_601), notifications=in_force(delay_seconds=3_600)),
        Verdict.SHOW,
    ),
    "level NONE": (case(notifications=in_force("NONE")), Verdict.LEVEL),
    "level NONE, mentioned": (case(message(mentions=(BOB,)), notifications=in_force("NONE")), Verdict.LEVEL),
    "level MENTIONS": (case(notifications=MENTIONS), Verdict.LEVEL),
    "level MENTIONS, mentioned": (case(message(mentions=(BOB,)), notifications=MENTIONS), Verdict.SHOW),
    "level MENTIONS, another mentioned": (case(message(mentions=(ALICE,)), notifications=MENTIONS), Verdict.LEVEL),
    "level MENTIONS, everybody": (case(message(mentions_all=True), notifications=MENTIONS), Verdict.SHOW),
    "level MENTIONS, everybody suppressed": (
        case(message(mentions_all=True), notifications=in_force("MENTIONS", suppresses=True)),
        Verdict.LEVEL,
    ),
    "level MENTIONS, everybody suppressed, also by name": (
        case(message(mentions_all=True, mentions=(BOB,)), notifications=in_force("MENTIONS", suppresses=True)),
        Verdict.SHOW,
    ),
    "level ALL, everybody suppressed": (
        case(message(mentions_all=True), notifications=in_force(suppresses=True)),
        Verdict.SHOW,
    ),
    "level MENTIONS, own role": (
        case(message(mentioned_roles=(ROLE,)), notifications=MENTIONS, roles=frozenset({ROLE})),
        Verdict.SHOW,
    ),
    "level MENTIONS, another role": (case(message(mentioned_roles=(ROLE,)), notifications=MENTIONS), Verdict.LEVEL),
    "level MENTIONS, keyword": (
        case(message(text="Free BEER!"), notifications=in_force("MENTIONS", keywords=("beer",))),
        Verdict.SHOW,
    ),
    "level MENTIONS, part of a word": (
        case(message(text="beers"), notifications=in_force("MENTIONS", keywords=("beer",))),
        Verdict.LEVEL,
    ),
    "level NONE, keyword": (
        case(message(text="beer"), notifications=in_force("NONE", keywords=("beer",))),
        Verdict.LEVEL,
    ),
    "presence DND": (case(is_disturbable=False), Verdict.DO_NOT_DISTURB),
    "quiet time": (case(notifications=in_force(dnd_from=0, dnd_to=0)), Verdict.DO_NOT_DISTURB),
    "device in use, young message": (case(is_in_use=True), Verdict.WAIT),
    "device in use, old message": (case(message(age_s=10), is_in_use=True), Verdict.IN_USE),
    "device in use, no delay": (case(is_in_use=True, notifications=in_force(delay_seconds=0)), Verdict.IN_USE),
    "shown a moment ago": (case(intent=PushIntent(5, 9, 4, START_MS + 1)), Verdict.WAIT),
    "shown some time ago": (case(intent=PushIntent(5, 9, 4, START_MS)), Verdict.SHOW),
    "a retry does not wait": (case(intent=PushIntent(5, 5, 5, START_MS + 1, 0, 5, {"phone": 1})), Verdict.SHOW),
    "channel that is followed": (case(message(**IN_CHANNEL), session=session(CHANNEL, follows=True)), Verdict.SHOW),
    "channel that is not followed": (case(message(**IN_CHANNEL), session=session(CHANNEL)), Verdict.LEVEL),
    "channel that is not followed, mentioned": (
        case(message(mentions=(BOB,), **IN_CHANNEL), session=session(CHANNEL)),
        Verdict.SHOW,
    ),
    "channel that is not followed, everybody": (
        case(message(mentions_all=True, **IN_CHANNEL), session=session(CHANNEL)),
        Verdict.LEVEL,
    ),
    "channel without a session, mentioned": (
        case(message(mentions=(BOB,), **IN_CHANNEL), session=None),
        Verdict.SHOW,
    ),
    "private conversation without a session": (
        case(message(conversation=ConversationId("p_alice_bob")), session=None),
        Verdict.SHOW,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_has_its_verdict(name: str) -> None:
    given, verdict = CASES[name]
    assert decide(given).verdict is verdict


def test_the_newest_message_that_notifies_is_shown() -> None:
    named, plain, own = message(5, mentions=(BOB,)), message(6), message(7, sender=BOB)
    assert decide(case(named, plain, own)).message == plain
    assert decide(case(named, plain, own, notifications=MENTIONS)).message == named


def test_a_wait_begins_with_the_first_message_that_is_not_shown_yet() -> None:
    seen, young, younger = message(5, age_s=12), message(6, age_s=4), message(7, age_s=1)
    assert decide(case(seen, young, younger, is_in_use=True)) == PushDecision(
        Verdict.WAIT, wait_until_ms=START_MS + 6 * SECOND, first=6
    )


SHOWN = PushIntent(shown=5, cool_until_ms=START_MS)


@pytest.mark.parametrize(
    ("given", "removes"),
    [
        pytest.param(case(intent=SHOWN), False, id="nothing happened"),
        pytest.param(case(intent=SHOWN, session=session(acknowledged_seq=5)), True, id="read"),
        pytest.param(case(intent=SHOWN, session=session(muted=True)), True, id="muted"),
        pytest.param(case(intent=SHOWN, session=session(last_readable_seq=9)), True, id="left"),
        pytest.param(case(intent=SHOWN, notifications=in_force("NONE")), False, id="another level"),
        pytest.param(
            case(message(5, text=None, recalled_at_ms=START_MS), intent=SHOWN), True, id="the only message recalled"
        ),
    ],
)
def test_a_shown_notification_goes_when_it_has_to(given: Case, removes: bool) -> None:
    decision = decide(given)
    assert (decision.removes, decision.message) == (removes, None)


def test_a_recalled_message_is_replaced_at_once_by_one_that_is_still_unread() -> None:
    before, recalled = message(5), message(6, text=None, recalled_at_ms=START_MS)
    shown = PushIntent(shown=6, cool_until_ms=START_MS + 5 * SECOND)
    assert decide(case(before, recalled, intent=shown, is_in_use=True)).message == before
    assert decide(case(before, recalled, intent=shown, session=session(acknowledged_seq=5))).removes


def test_messages_after_a_read_notification_wait_while_it_is_removed() -> None:
    given = case(message(6), intent=PushIntent(6, 6, 5, START_MS + SECOND), session=session(acknowledged_seq=5))
    decision = decide(given)
    assert (decision.verdict, decision.removes, decision.first) == (Verdict.WAIT, True, 6)


# START_MS is 08:00 UTC, 17:00 in Tokyo, 03:00 in New York.
@pytest.mark.parametrize(
    ("begin", "end", "zone", "is_quiet"),
    [
        (None, None, "UTC", False),
        (8 * 60, 9 * 60, "UTC", True),
        (7 * 60, 8 * 60, "UTC", False),
        (22 * 60, 7 * 60, "UTC", False),
        (22 * 60, 7 * 60, "America/New_York", True),
        (22 * 60, 7 * 60, "Asia/Tokyo", False),
        (17 * 60, 17 * 60 + 1, "Asia/Tokyo", True),
        (9 * 60, 9 * 60, "UTC", True),
        (8 * 60, 9 * 60, "Mars/Olympus", True),
        (8 * 60, 9 * 60, "../etc/passwd", True),
    ],
)
def test_do_not_disturb_is_in_the_zone_of_the_user(
    begin: int | None, end: int | None, zone: str, is_quiet: bool
) -> None:
    settings = replace(NotificationSettings(), dnd_from=begin, dnd_to=end, time_zone=zone)
    assert is_do_not_disturb_time(settings, START_MS) is is_quiet


@pytest.mark.parametrize(
    ("now", "is_quiet"),
    # In Berlin 2027-03-28 01:59 is followed by 03:00.
    [("2027-03-28T00:59:00+00:00", True), ("2027-03-28T01:00:00+00:00", False)],
)
def test_do_not_disturb_follows_changes_of_the_clock(now: str, is_quiet: bool) -> None:
    from datetime import datetime

    settings = NotificationSettings(dnd_from=0, dnd_to=2 * 60, time_zone="Europe/Berlin")
    assert is_do_not_disturb_time(settings, round(datetime.fromisoformat(now).timestamp() * 1000)) is is_quiet
