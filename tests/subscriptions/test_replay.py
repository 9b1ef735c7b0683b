"""A replay is ordered by seq in each conversation, with revisions after their messages and exact cursors."""

from __future__ import annotations

import random

import pytest

from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind
from subscriptions.realtime.events.messages import MessageCreated, MessageRecalled, MessageUpdated
from subscriptions.realtime.mailboxes import MailboxEvent, Position
from subscriptions.realtime.replay import sort_replay

KINDS = {"C": MessageCreated, "U": MessageUpdated, "R": MessageRecalled}
START = Position("epoch", 100)


def logged(*events: str) -> list[MailboxEvent]:
    """Return events such as C5, a creation, in the order of the log."""
    items = []
    for tick, event in enumerate(events, start=101):
        seq = int(event[1:])
        message = Message(MessageId(seq), ConversationId("g_1"), UserId("a"), MessageKind.TEXT, "text", seq)
        items.append(MailboxEvent(Position("epoch", tick), KINDS[event[0]](message)))
    return items


def spelt(items: list[MailboxEvent]) -> list[str]:
    letters = {kind: letter for letter, kind in KINDS.items()}
    return [f"{letters[type(item.event)]}{item.event.message.seq}" for item in items]  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("log", "replayed"),
    [
        ("C4 U4 C5 R4", "C4 U4 C5 R4"),
        ("C5 U5 C4", "C4 C5 U5"),
        ("C5 U5 U3 C4 R5 U4", "C4 U3 C5 U5 R5 U4"),
        ("C6 U6 C5 U5 C4 U4", "C4 C5 U5 C6 U6 U4"),
        ("U2 U1 R2", "U2 U1 R2"),
    ],
)
def test_no_revision_comes_before_its_message(log: str, replayed: str) -> None:
    assert " ".join(spelt(sort_replay(START, logged(*log.split())))) == replayed


@pytest.mark.parametrize("seed", range(20))
def test_every_cursor_resumes_exactly_after_its_event(seed: int) -> None:
    chance = random.Random(seed)
    seqs = chance.sample(range(1, 13), 12)
    log: list[str] = []
    for seq in seqs:
        log.append(f"C{seq}")
        for kind in chance.choices("UR", k=chance.randrange(3)):
            place = chance.randrange(log.index(f"C{seq}") + 1, len(log) + 1)
            log.insert(place, f"{kind}{seq}")
    items = logged(*log)
    replayed = sort_replay(START, items)
    assert sorted(spelt(replayed)) == sorted(log)
    creations = [event for event in spelt(replayed) if event[0] == "C"]
    assert creations == [f"C{seq}" for seq in sorted(seqs)]
    for number, item in enumerate(replayed):
        assert f"C{item.event.message.seq}" in spelt(replayed[: number + 1])  # type: ignore[union-attr]
        remaining = [other for other in items if other.position.tick > item.position.tick]
        rest = spelt(sort_replay(item.position, remaining))
        assert sorted(rest) == sorted(spelt(replayed[number + 1 :]))
        assert [event for event in rest if event[0] == "C"] == [
            event for event in spelt(replayed[number + 1 :]) if event[0] == "C"
        ]
