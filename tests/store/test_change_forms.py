"""Stored forms of changes: they wait in Redis while a state is loaded, maybe by a server of another version."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from store.base.ids import ConversationId, UserId
from store.receipts.receipt_marks import ReceiptKind
from store.redis.cache import Call
from store.sessions.changes import (
    AcknowledgeMany,
    Change,
    Delivered,
    Dissolve,
    EventOnly,
    Invalidate,
    Join,
    Leave,
    Notice,
    Read,
    ReceiptReceived,
    Revise,
    SetFields,
    logged_change,
)
from store.sessions.session import Session
from store.sessions.threads.thread_changes import FollowThread, HideThreads, JudgeThreads, ShowThreads, UnfollowThread
from store.store import Store
from tests.store.loading import load_calls, state_of

THREAD = ConversationId("t_1_g_1")
GROUP, PRIVATE, USER = ConversationId("g_1"), ConversationId("p_ann_ben"), UserId("ann")
NOW = 1_900_000_000_000
RECORD = {"s": 3, "n": 2, "r": 3, "rn": 2, "d": 3, "p": 0, "a": 9, "w": 9, "g": [3, 3], "sb": "shop"}
FOLLOWED = {name: value for name, value in RECORD.items() if name != "g"} | {"sb": "@threads", "fw": 1, "fv": 7}

FORMS: list[tuple[Change, str, dict[str, Any]]] = [
    (
        SetFields([GROUP], {Session.priority: 2}, moves_write_ts=True),
        "set",
        {"cs": ["g_1"], "f": {"p": 2}, "u": ["us"], "w": 1},
    ),
    (Read(GROUP, 3, 2), "read", {"c": "g_1", "r": 3, "rn": 2}),
    (Delivered(GROUP, 3), "delivered", {"c": "g_1", "d": 3}),
    (
        AcknowledgeMany([(Read(GROUP, 3, 2), "receipt"), (Read(PRIVATE, 1, 1), None)]),
        "acknowledge",
        {
            "ps": [
                {"k": "read", "c": "g_1", "r": 3, "rn": 2, "e": "receipt"},
                {"k": "read", "c": "p_ann_ben", "r": 1, "rn": 1},
            ]
        },
    ),
    (
        AcknowledgeMany([(Delivered(GROUP, 3), "receipt")]),
        "acknowledge",
        {"ps": [{"k": "delivered", "c": "g_1", "d": 3, "e": "receipt"}]},
    ),
    (ReceiptReceived(PRIVATE, ReceiptKind.READ, 3), "receipt", {"c": "p_ann_ben", "k": "R", "s": 3, "peer": 1}),
    (Notice(GROUP), "receipt", {"c": "g_1"}),
    (EventOnly(), "event", {}),
    (Revise(GROUP, 3, may_repeat=True), "revise", {"c": "g_1", "s": 3, "again": 1}),
    (Join(GROUP, 3, 2, "shop"), "join", {"c": "g_1", "rec": RECORD}),
    (Leave(GROUP, 3, 2, NOW), "leave", {"c": "g_1", "f": 3}),
    (Dissolve(GROUP), "dissolve", {"c": "g_1"}),
    (FollowThread(THREAD, 3, 2, 7, 9), "follow", {"c": THREAD, "v": 7, "rec": FOLLOWED}),
    (UnfollowThread(THREAD, 7), "unfollow", {"c": THREAD, "v": 7}),
    (HideThreads([GROUP]), "hide", {"ps": ["g_1"]}),
    (ShowThreads([GROUP]), "show", {"ps": ["g_1"]}),
    (ShowThreads((), inside="c_7."), "show", {"in": "c_7."}),
    (JudgeThreads(GROUP, [(1, 3), (7, None)]), "judge", {"c": "g_1", "rs": [[1, 3], [7]]}),
    (Invalidate(), "doubt", {}),
    (Invalidate(unless_cached=GROUP), "doubt", {"c": "g_1"}),
]


@pytest.mark.parametrize(("change", "kind", "fields"), FORMS, ids=[type(change).__name__ for change, *_ in FORMS])
def test_a_change_keeps_its_stored_form(change: Change, kind: str, fields: dict[str, Any]) -> None:
    stored = logged_change(change, 9, "entry")
    assert (stored.kind, orjson.loads(stored.text)) == (kind, fields | {"at": 9, "e": "entry"})


async def test_a_group_receipt_of_an_earlier_version_changes_no_session(store: Store) -> None:
    keys, record = store.keys.user(USER), {"s": 1, "n": 1, "r": 0, "rn": 0, "d": 0, "p": 0, "a": NOW, "w": NOW}
    receipt = {"c": GROUP, "s": 1, "k": "R", "at": NOW, "e": "{}", "peer": 0}
    receipt_call = Call("apply", keys, (NOW, "", "receipt", orjson.dumps(receipt)))
    state = state_of(USER, {GROUP: record}, NOW + 10)
    _, pending, *_ = await store.cache.run(load_calls(store.keys, state, NOW, receipt_call))
    session = await store.sessions.find(USER, GROUP)
    assert (pending, session.record if session else None) == ([b"pending"], record)
