"""Messages that wait to be applied to sessions: a state that they were folded into equals one without waiting."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import ConversationId, UserId
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from store.sessions.apply_messages import FanoutCalls, FanoutResult, MessageDelta, MessageRelation
from store.sessions.apply_results import ApplyResult, parse_result
from store.store import Store

NOW = 1_900_000_000_000
LATER = NOW + 11
GROUP = ConversationId("g_1")
PLAIN = {"s": 3, "n": 3, "r": 1, "rn": 1, "d": 2, "p": 0, "a": NOW, "w": NOW}
_names = itertools.count()

_seqs = st.integers(0, 4)
_record = st.fixed_dictionaries(
    {"s": _seqs, "r": _seqs, "d": _seqs, "p": st.sampled_from((0, 0, 3)), "w": st.sampled_from((NOW, LATER))},
    optional={
        "pr": _seqs,
        "pd": _seqs,
        "us": _seqs,
        "m": st.just(1),
        "mu": st.sampled_from((LATER, LATER + 90_000)),
        "ms": st.just([2]),
        "g": st.just([1, 1]),
        "ca": st.sampled_from(("work", "home")),
        "x": _seqs,
        "f": _seqs,
        "dd": st.just(1),
    },
)
_conversations = ("g_1", "g_2", "p_ann_ben", "p_ann_ben~shop", "p_ann_cat~shop")
_kinds = ("message", "message", "message", "system", "own", "mention")
_changes = (
    ("read", {"r": 3, "rn": 3}),
    ("delivered", {"d": 4}),
    ("set", {"f": {"m": 1}, "u": [], "w": 0}),
    ("set", {"f": {"ca": "work"}, "u": ["m", "mu"], "w": 1}),
    ("set", {"f": {"x": 2, "xn": 2}, "u": [], "w": 0}),
    ("leave", {"f": 4}),
    ("revise", {"s": 2}),
)
_step = st.one_of(
    st.tuples(st.sampled_from(_kinds), st.integers(0, 4), st.sampled_from((1, 1, 1, 1, 0, 2)), st.integers(0, 3)),
    st.tuples(st.just("change"), st.integers(0, 4), st.integers(0, len(_changes) - 1), st.just(0)),
    st.tuples(st.just("read state"), st.integers(0, 4), st.just(0), st.just(0)),
    st.tuples(st.just("time"), st.just(0), st.just(0), st.sampled_from((5, 100_000))),
)
_examples = st.tuples(
    st.lists(_record, min_size=1, max_size=5), st.booleans(), st.lists(st.lists(_step, max_size=5), max_size=8)
)


def _consistent(rec: dict[str, Any], conversation: str) -> dict[str, Any]:
    """Return a consistent record: all messages so far count."""
    s = rec["s"]
    record = rec | {"n": s, "r": min(rec["r"], s), "rn": min(rec["r"], s), "d": min(rec["d"], s), "a": NOW}
    if "mu" in rec:
        record |= {"m": 1, "mu": str(rec["mu"])}
    if "x" in rec:
        record |= {"x": min(rec["x"], s), "xn": min(rec["x"], s)}
    if "~" in conversation:
        record["sb"] = "shop"
    return record


async def _loaded(store: Store, records: dict[str, dict[str, Any]], *, has_listener: bool = False) -> UserId:
    user = UserId(f"ann{next(_names)}")
    keys = store.keys.user(user)
    in_use = {rec["sb"] for rec in records.values() if "sb" in rec}
    records = records | {
        f"b_{name}": dict.fromkeys(("s", "n", "r", "rn", "d", "p", "a", "w", "ow"), 0) for name in in_use
    }
    parts = [part for conversation, rec in records.items() for part in (conversation, orjson.dumps(rec))]
    calls = [
        Call("load_begin", keys, (NOW, "mine", 60_000)),
        Call("load_part", keys, (NOW, "mine", 60_000, *parts)),
        Call("load_finish", keys, (NOW, "mine", "epoch", NOW + 10, len(records), *in_use)),
    ]
    if has_listener:
        calls.append(Call("attach", keys, (NOW, "server", NOW + 900_000)))
    await store.cache.run(calls)
    return user


async def _contents(store: Store, user: UserId) -> list[Any]:
    """Return all keys of a user without waiting messages, each of which has to expire."""
    key = {name: store.keys.of_user(user, name) for name in USER_KEYS}
    calls = [Call("HGETALL", (key[name],)) for name in ("sessions", "meta")]
    calls += [Call("ZRANGE", (key[name],), (0, -1, "WITHSCORES")) for name in ("index", "list", "mutes")]
    calls += [Call("XRANGE", (key["log"],), ("-", "+")), *(Call("PTTL", (key[name],)) for name in USER_KEYS)]
    *flat, index, rows, mutes, log = (answers := await store.cache.run(calls))[:6]
    sessions, meta = (dict(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in flat)
    others = [list(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in (index, rows, mutes)]
    assert -1 not in answers[6:]
    meta.pop(b"touched", None)
    assert meta.pop(b"waiting", b"0") == b"0"
    assert not any(name.startswith(b"w:") for name in meta)
    return [{name: orjson.loads(text) for name, text in sessions.items()}, meta, *map(sorted, others), log]


async def _fan_out(store: Store, now: int, deltas: Sequence[MessageDelta]) -> list[FanoutResult]:
    calls = FanoutCalls(store.cache, now)
    results = [calls.add_message(delta) for delta in deltas]
    await calls.run(store.cache.run)
    return results


async def _read(store: Store, user: UserId, conversation: str, now: int) -> Any:
    return await store.cache.one(Call("get_sessions", store.keys.user(user), (now, conversation)))


def _positions(result: FanoutResult, user: UserId) -> Any:
    """Return the event's position for the user, and the ticks to store."""
    positions = [recipient[1:] for recipient in result.recipients.get("server", ()) if recipient[0] == user]
    positions += [(o.epoch, o.tick, o.previous) for u, o in result.others if u == user and o.changed and o.routes]
    return positions


def _own_result(outcome: ApplyResult) -> Any:
    """Return what the sender of a message learns."""
    records = [session.record for session in outcome.sessions[:1]]
    return outcome.changed, outcome.tick, outcome.previous, outcome.old_read_seq, outcome.old_unread, records


async def test_a_folded_state_equals_one_in_which_nothing_waited(store: Store) -> None:
    """Hypothesis runs its examples on a thread of their own, and they run on this loop."""
    loop = asyncio.get_running_loop()

    @settings(max_examples=200, deadline=None)
    @given(_examples)
    def examples(values: tuple[Any, ...]) -> None:
        asyncio.run_coroutine_threadsafe(_compare(store, *values), loop).result(20)

    await asyncio.to_thread(examples)


async def _compare(
    store: Store, records: list[dict[str, Any]], has_listener: bool, batches: list[list[tuple[str, int, int, int]]]
) -> None:
    loaded = {name: _consistent(rec, name) for name, rec in zip(_conversations, records, strict=False)}
    waiting, other = [await _loaded(store, loaded, has_listener=has_listener) for _ in range(2)]
    seqs = {name: loaded[name]["s"] if name in loaded else 0 for name in _conversations}
    now = LATER
    for batch in batches:
        deltas: list[tuple[MessageDelta, str, str]] = []
        for kind, place, number, late in batch:
            conversation = ConversationId(_conversations[place])
            if kind in _kinds:
                seqs[conversation] = seq = max(1, seqs[conversation] + number)
                relation: Any = kind if kind in ("own", "mention") else None
                relations: dict[UserId, MessageRelation] = {waiting: relation} if relation else {}
                delta = MessageDelta(
                    conversation, seq, seq, kind != "system", now + late, f"{now} {seq}", [waiting], relations
                )
                deltas.append((delta, relation or "message", delta.text))
            elif kind == "change":
                name, fields = _changes[number]
                where = {"cs": [conversation]} if name == "set" else {"c": conversation}
                change = orjson.dumps({**fields, **where, "at": now, "e": "change"})
                for user in (waiting, other):
                    await store.cache.one(Call("apply", store.keys.user(user), (now, "", name, change)))
            elif kind == "read state":
                assert await _read(store, waiting, conversation, now) == await _read(store, other, conversation, now)
            now += late
        results = await _fan_out(store, now, [delta for delta, _, _ in deltas])
        answers = [
            await store.cache.one(Call("apply", store.keys.user(other), (max(now, delta.at_ms), "", kind, text)))
            for delta, kind, text in deltas
        ]
        if any(answer[0] != b"ok" for answer in answers):
            # The state was dropped: MongoDB knows more.
            assert results == [FanoutResult()] * len(results)
            continue
        for result, answer, (_, kind, _) in zip(results, answers, deltas, strict=True):
            outcome = answer[3]
            expected = [(answer[1].decode(), int(outcome[1]), int(outcome[2]))] if outcome[0] == b"ok" else []
            assert _positions(result, waiting) == (expected if has_listener else [])
            if kind == "own":
                assert _own_result(result.others[0][1]) == _own_result(parse_result(other, answer))
    for user in (waiting, other):
        await _read(store, user, "g_1", now)
    assert await _contents(store, waiting) == await _contents(store, other)


async def _commands(store: Store) -> dict[str, int]:
    stats = await store.cache.one(Call("INFO", (), ("commandstats",)))
    lines = [line for line in stats.decode().splitlines() if line.startswith("cmdstat_")]
    counts = {line[8 : line.index(":")]: int(line.split("calls=")[1].split(",")[0]) for line in lines}
    return {name: count for name, count in counts.items() if name not in ("info", "evalsha")}
