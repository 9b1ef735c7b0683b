"""The order in which the messages of one fan-out batch are applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import CommittedMessage, Message, MessageKind, ReservedMessage
from store.redis.cache import Call
from store.redis.keys import Keys
from store.sessions.changes import Leave, LoggedChange, logged_change
from store.store import Store
from subscriptions.delivery.fanout_batch import FanoutBatch
from subscriptions.delivery.recipients import MembershipUpdate, RecipientSlice

ANN, BEN, CAT = (UserId(name) for name in ("ann", "ben", "cat"))
NOW = 1_795_000_000_000


def _store() -> Store:
    def apply(user: UserId, change: LoggedChange) -> Call:
        return Call("apply", Keys("").user(user), (NOW, "", change.kind, change.text))

    parts = {
        "keys": Keys(""),
        "clock": SimpleNamespace(now_ms=lambda: NOW),
        "sessions": SimpleNamespace(apply_call=apply),
    }
    return cast(Store, SimpleNamespace(**parts))


def _part(conversation: str, seq: int, *users: UserId, updates: tuple[MembershipUpdate, ...] = ()) -> RecipientSlice:
    message = Message(MessageId(seq), ConversationId(conversation), ANN, MessageKind.TEXT, "said", seq, seq)
    return RecipientSlice(CommittedMessage(ReservedMessage(message, "", ""), NOW), updates, users)


def _read(call: Call) -> tuple[str, list[str]]:
    """Return the user of the keys, and each kind of call with the seq of its message."""
    assert call.keys is not None
    changes = [
        f"{kind} {text.split()[1]}" if isinstance(text, str) else kind
        for kind, text in zip(call.args[2::2], call.args[3::2], strict=True)
    ]
    return call.keys[0].partition("{u:")[2].partition("}")[0], changes


def test_messages_of_a_conversation_are_batched_except_for_their_senders() -> None:
    batch = FanoutBatch(_store(), [_part("g_1", 1, ANN, BEN), _part("g_2", 7, BEN), _part("g_1", 2, ANN, BEN, CAT)])
    assert [_read(call) for call in batch.calls] == [
        ("ann", ["own 1"]),
        ("ann", ["own 2"]),
        ("ben", ["message 1", "message 2"]),
        ("cat", ["message 2"]),
        ("ben", ["message 7"]),
    ]
    one, other, two = batch.read([1, [b"pending"], [b"routed", b"e", 5, NOW, NOW + 1, b"s"], 1, 1])
    assert [user for _, result in (one, other, two) for user, _ in result.others] == [ANN]
    assert one[1].recipients == {"s": [(BEN, "e", NOW, 5)]}
    assert two[1].recipients == {"s": [(BEN, "e", NOW + 1, NOW)]}
    assert [(tick.user, tick.at) for tick in two[1].ticks] == [(BEN, NOW + 1)]


def test_a_group_change_is_applied_between_the_messages_around_it() -> None:
    leaves = MembershipUpdate(CAT, logged_change(Leave(ConversationId("g_1"), 1, 1, NOW), NOW, ""))
    parts = [_part("g_1", 1, BEN, CAT), _part("g_1", 2, BEN, updates=(leaves,)), _part("g_1", 3, BEN)]
    batch = FanoutBatch(_store(), parts)
    assert [_read(call) for call in batch.calls] == [
        ("ben", ["message 1"]),
        ("cat", ["message 1"]),
        ("cat", ["leave"]),
        ("ben", ["message 2"]),
        ("ben", ["message 3"]),
    ]
    answers = [1, 1, [b"not_cached"], 1, 1]
    assert [effects for effects, _ in batch.read(answers)] == [[], [[b"not_cached"]], []]


def test_no_call_delays_others_for_more_than_a_few_messages() -> None:
    batch = FanoutBatch(_store(), [_part("g_1", seq, BEN) for seq in range(1, 41)])
    assert [len(_read(call)[1]) for call in batch.calls] == [32, 8]
