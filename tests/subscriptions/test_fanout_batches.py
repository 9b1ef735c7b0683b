"""The calls of one fan-out batch: what they apply to each user, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import CommittedMessage, Message, MessageKind, ReservedMessage
from store.redis.cache import Call
from store.redis.keys import Keys
from store.sessions.changes import Leave, logged_change
from store.sessions.script_constants import APPENDED, ELSEWHERE, NOT_CACHED
from store.store import Store
from subscriptions.delivery.fanout_batch import FanoutBatch
from subscriptions.delivery.recipients import MembershipUpdate, RecipientSlice

ANN, BEN, CAT = (UserId(name) for name in ("ann", "ben", "cat"))
NOW = 1_795_000_000_000


class RecordedCache:
    """Answers calls with what a test says, and records them."""

    def __init__(self, *answers: Sequence[Any], nodes: dict[str, str] | None = None) -> None:
        self.answers = list(answers)
        self.trips: list[Sequence[Call]] = []
        self.keys = Keys("")
        self.is_cluster = nodes is not None
        self._nodes = nodes or {}

    def owner(self, key: str) -> str:
        return self._nodes[key.partition("{u:")[2].partition("}")[0]]

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        self.trips.append(calls)
        return list(self.answers.pop(0))


def _batch(redis: RecordedCache, parts: Sequence[RecipientSlice]) -> FanoutBatch:
    store = SimpleNamespace(cache=redis, clock=SimpleNamespace(now_ms=lambda: NOW))
    return FanoutBatch(cast(Store, store), parts)


def _part(conversation: str, seq: int, *users: UserId, updates: tuple[MembershipUpdate, ...] = ()) -> RecipientSlice:
    message = Message(MessageId(seq), ConversationId(conversation), ANN, MessageKind.TEXT, "said", seq, seq)
    return RecipientSlice(CommittedMessage(ReservedMessage(message, "", ""), NOW), updates, users)


def _read(call: Call) -> dict[str, list[str]]:
    """Return the changes of each user of a call, each as kind, conversation and seq."""
    assert call.name == "fan_out"
    count = call.args[1]
    pairs = zip(call.args[2 : 2 + 2 * count : 2], call.args[3 : 3 + 2 * count : 2], strict=True)
    changes = [" ".join([kind, *text.split()[:2]]) if isinstance(text, str) else kind for kind, text in pairs]
    groups, found = list(call.args[2 + 2 * count :]), {}
    while groups:
        numbers, size, *groups = groups
        for user in groups[:size]:
            found[user] = [changes[int(number) - 1] for number in numbers.split()]
        groups = groups[size:]
    return found


async def test_each_user_gets_all_changes_in_order_in_one_call() -> None:
    parts = [_part("g_1", 1, ANN, BEN), _part("g_2", 7, BEN), _part("g_1", 2, ANN, BEN, CAT)]
    redis = RecordedCache([[[b"s"], NOT_CACHED, [b"e", 0, 5, NOW, NOW + 1, NOW + 2], APPENDED]])
    batch = _batch(redis, parts)
    await batch.run(redis.run)
    ((call,),) = redis.trips
    assert _read(call) == {
        "ann": ["own g_1 1", "own g_1 2"],
        "ben": ["message g_1 1", "message g_2 7", "message g_1 2"],
        "cat": ["message g_1 2"],
    }
    one, other, two = (result for _, result, _ in batch.results)
    assert one.recipients == {"s": [(BEN, "e", NOW, 5)]}
    assert other.recipients == {"s": [(BEN, "e", NOW + 1, NOW)]}
    assert two.recipients == {"s": [(BEN, "e", NOW + 2, NOW + 1)]}
    assert [(tick.user, tick.at) for tick in (*one.ticks, *other.ticks, *two.ticks)] == [(BEN, NOW + 1), (BEN, NOW + 2)]


async def test_a_group_change_is_applied_between_the_messages_around_it() -> None:
    leaves = MembershipUpdate(CAT, logged_change(Leave(ConversationId("g_1"), 1, 1, NOW), NOW, ""))
    parts = [_part("g_1", 1, BEN, CAT), _part("g_1", 2, BEN, CAT, updates=(leaves,))]
    left = [b"ok", b"%d" % (NOW + 1), b"%d" % NOW, 0, -1, 0]
    redis = RecordedCache([[[b"s t", b""], APPENDED, [b"e", 0, 5, NOW, left, NOW + 2]]])
    batch = _batch(redis, parts)
    await batch.run(redis.run)
    assert _read(redis.trips[0][0])["cat"] == ["message g_1 1", "leave", "message g_1 2"]
    (_, one, _), ((update,), two, _) = batch.results
    assert [(o.tick, o.previous, o.routes) for _, o in update.others] == [(NOW + 1, NOW, ("s", "t"))]
    assert one.recipients == {name: [(CAT, "e", NOW, 5)] for name in "st"}
    assert two.recipients == {name: [(CAT, "e", NOW + 2, NOW + 1)] for name in "st"}


async def test_no_call_delays_others_for_more_than_some_messages() -> None:
    users = [UserId(f"u{number}") for number in range(450)]
    redis = RecordedCache([[[], *[APPENDED] * size] for size in (200, 200, 50)])
    await _batch(redis, [_part("g_1", 1, *users)]).run(redis.run)
    assert [len(_read(call)) for call in redis.trips[0]] == [200, 200, 50]
    parts = [_part("g_1", seq, BEN) for seq in range(1, 202)]
    redis = RecordedCache([[[], NOT_CACHED]] * 2)
    await _batch(redis, parts).run(redis.run)
    applied = [change for call in redis.trips[0] for change in _read(call)["ben"]]
    assert applied == [f"message g_1 {seq}" for seq in range(1, 202)]


async def test_users_are_called_at_their_nodes_and_again_if_they_are_elsewhere() -> None:
    redis = RecordedCache(
        [b"first", [[b"s"], ELSEWHERE, APPENDED], [[b"s"], [b"e", 0, 5, NOW]]],
        [[b"ok", b"e2", [b"s"], [b"ok", b"%d" % NOW, b"7", 0, 0, 0]]],
        nodes={"ann": "one", "ben": "one", "cat": "other"},
    )
    batch = _batch(redis, [_part("g_1", 1, ANN, BEN, CAT)])
    assert await batch.run(redis.run, [Call("PING", ())]) == [b"first"]
    first, second = redis.trips
    assert [_read(call) for call in first[1:]] == [
        {"ann": ["own g_1 1"], "ben": ["message g_1 1"]},
        {"cat": ["message g_1 1"]},
    ]
    assert [(call.name, call.keys, call.args[2]) for call in second] == [("apply", Keys("").user(ANN), "own")]
    ((_, result, _),) = batch.results
    assert [(user, o.tick, o.previous) for user, o in result.others] == [(ANN, NOW, 7)]
    assert result.recipients == {"s": [(CAT, "e", NOW, 5)]}
