"""The fast path of messages through a cached state (`_fast_path.lua`): it ends where the general code does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import ConversationId, UserId
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from store.sessions.apply_messages import FanoutResult, MessageApplier, MessageDelta, MessageRelation
from store.store import Store
from tests.store.loading import load_calls, state_of

NOW = 1_900_000_000_000
LATER = NOW + 11
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
    },
)
_rare = st.fixed_dictionaries({}, optional={"ca": st.just("work"), "x": _seqs, "f": _seqs, "dd": st.just(1)})
_messages = st.lists(
    st.tuples(st.sampled_from((1, 1, 1, 0, 2)), st.sampled_from(("message", "message", "own", "mention", "system"))),
    min_size=1,
    max_size=3,
)
_talks = st.sampled_from(("g_1", "g_1", "p_ann_ben", "p_ann_ben~shop"))
_examples = st.tuples(
    _record,
    _rare | st.just({}),
    _talks,
    st.booleans(),
    st.booleans(),
    _messages,
    st.none() | st.sampled_from(USER_KEYS[:7]),
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
    calls = load_calls(store.keys, state_of(user, records, NOW + 10), NOW)
    if has_listener:
        calls.append(Call("attach", store.keys.user(user), (NOW, "server", NOW + 90_000)))
    await store.cache.run(calls)
    return user


async def _contents(store: Store, user: UserId) -> list[Any]:
    """Return all keys of a user, each of which has to expire."""
    key = {name: store.keys.of_user(user, name) for name in USER_KEYS}
    calls = [Call("HGETALL", (key[name],)) for name in ("sessions", "meta")]
    calls += [Call("ZRANGE", (key[name],), (0, -1, "WITHSCORES")) for name in ("index", "list", "mutes")]
    calls += [Call("XRANGE", (key["log"],), ("-", "+")), *(Call("PTTL", (key[name],)) for name in USER_KEYS)]
    *flat, index, rows, mutes, log = (answers := await store.cache.run(calls))[:6]
    sessions, meta = (dict(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in flat)
    others = [list(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in (index, rows, mutes)]
    assert -1 not in answers[6:]
    meta.pop(b"touched", None)
    return [{name: orjson.loads(text) for name, text in sessions.items()}, meta, *map(sorted, others), log]


def _args(conversation: str, seq: int, kind: str) -> tuple[Any, ...]:
    countable = int(kind != "system")
    return LATER, "", kind if countable else "message", f"{conversation} {seq} {seq} {countable} {LATER} an event"


def _outcome(answer: Any) -> Any:
    """Return the result of `apply` in its shortest form."""
    if answer == 1:
        return "epoch", LATER, []
    if answer[0] == b"routed":
        return answer[1].decode(), answer[3], answer[4:]
    if answer[0] == b"ok" and answer[3][0] == b"ok":
        return answer[1].decode(), int(answer[3][1]), answer[2]
    return answer[:3], answer[3:] and answer[3][:6]


async def test_a_message_has_the_same_effects_on_both_code_paths(store: Store) -> None:
    """Hypothesis runs its examples on a thread of their own, and they run on this loop."""
    loop = asyncio.get_running_loop()

    @settings(max_examples=120, deadline=None)
    @given(_examples)
    def examples(values: tuple[Any, ...]) -> None:
        asyncio.run_coroutine_threadsafe(_both_ways(store, *values), loop).result(20)

    await asyncio.to_thread(examples)


async def _both_ways(
    store: Store,
    usual: dict[str, Any],
    rare: dict[str, Any],
    conversation: str,
    alone: bool,
    has_listener: bool,
    messages: list[tuple[int, str]],
    evicted: str | None,
) -> None:
    records = {conversation: _consistent(usual | rare, conversation)}
    if not alone:
        records["g_2"] = {"s": 1, "n": 1, "r": 0, "rn": 0, "d": 0, "p": 0, "a": NOW - 1, "w": NOW - 1}
    short, long = [await _loaded(store, dict(records), has_listener=has_listener) for _ in range(2)]
    if evicted is not None:
        await store.cache.run([Call("DEL", (store.keys.of_user(user, evicted),)) for user in (short, long)])
    seq = records[conversation]["s"]
    # A change without effect: anything that comes together with another message takes the long path.
    nothing = ("doubt", orjson.dumps({"c": conversation}))
    for ahead, kind in messages:
        seq = max(1, seq + ahead)
        args = _args(conversation, seq, kind)
        calls = [Call("apply", store.keys.user(user), args) for user in (short, long)]
        one, two = await store.cache.run([calls[0], Call("apply", calls[1].keys, (*args, *nothing))])
        assert _outcome(one) == _outcome(two)
        assert await _contents(store, short) == await _contents(store, long)


PLAIN = {"s": 3, "n": 3, "r": 1, "rn": 1, "d": 2, "p": 0, "a": NOW, "w": NOW}


@pytest.mark.parametrize("extra", [{}, {"m": 1}, {"g": [1, 2]}, {"ms": [2]}, {"us": 2}, {"mu": str(NOW * 2), "m": 1}])
async def test_a_plain_message_returns_only_the_servers_that_listen(store: Store, extra: dict[str, Any]) -> None:
    """Every other result comes from the long path."""
    group = ConversationId("g_1")
    users = [await _loaded(store, {group: PLAIN | extra}, has_listener=has_listener) for has_listener in (False, True)]
    application = MessageApplier(store.keys, LATER, [MessageDelta(group, 4, 4, True, LATER, "an event", users, {})])
    silent, notified = await store.cache.run(application.calls())
    assert (silent, notified) == (1, [b"routed", b"epoch", NOW + 10, LATER, b"server"])
    assert application.read([silent, notified]) == [FanoutResult({"server": [(users[1], "epoch", LATER, NOW + 10)]})]


async def test_messages_applied_together_keep_their_order_in_the_events(store: Store) -> None:
    """The recipients: one who wrote one of the messages, one who missed one, and one who has received one already."""
    group, kept = ConversationId("g_1"), dict(PLAIN)
    users = [
        await _loaded(store, {group: dict(kept)}, has_listener=has_listener)
        for has_listener in (True, True, True, True, False)
    ]
    plain, writer, late, ahead, silent = users

    def shows(*seqs: int, to: Sequence[UserId] = users) -> list[MessageDelta]:
        kinds: dict[UserId, MessageRelation] = {writer: "own"}
        return [MessageDelta(group, s, s, True, LATER + s, str(s), to, kinds if s == 5 else {}) for s in seqs]

    async def do(these: list[MessageDelta]) -> list[FanoutResult]:
        application = MessageApplier(store.keys, LATER, these)
        return application.read(await store.cache.run(application.calls()))

    await do(shows(4, to=[ahead]))
    four, five, six = await do([*shows(4, to=[plain, writer, ahead, silent]), *shows(5, 6)])
    ticks = {4: LATER + 4, 5: LATER + 5, 6: LATER + 6}

    def ticks_of(result: FanoutResult) -> dict[UserId, tuple[int, int]]:
        places = {user: (tick, previous) for user, _, tick, previous in result.recipients.get("server", ())}
        return places | {user: (o.tick, o.previous) for user, o in result.others if o.changed}

    assert ticks_of(four) == dict.fromkeys((plain, writer), (ticks[4], NOW + 10))
    assert ticks_of(five) == dict.fromkeys((plain, writer, ahead), (ticks[5], ticks[4])) | {late: (ticks[5], NOW + 10)}
    assert ticks_of(six) == dict.fromkeys((plain, writer, late, ahead), (ticks[6], ticks[5]))
    for user in users:
        log = await store.sessions.read_log(user, "epoch", NOW + 10, 10)
        assert [text for _, _, text in log or ()] == ([b"4"] if user != late else []) + [b"5", b"6"]
        session = await store.sessions.find(user, group)
        assert session is not None
        assert (session.write_seq, session.unread_count) == (6, 1 if user == writer else 5)


_bursts = st.tuples(
    _record, _talks, st.booleans(), st.lists(st.sampled_from((0, 0, 5)), min_size=2, max_size=4), st.booleans()
)


async def test_messages_applied_together_have_the_effects_of_one_by_one(store: Store) -> None:
    loop = asyncio.get_running_loop()

    @settings(max_examples=60, deadline=None)
    @given(_bursts)
    def examples(values: tuple[Any, ...]) -> None:
        asyncio.run_coroutine_threadsafe(_compare_with_one_by_one(store, *values), loop).result(20)

    await asyncio.to_thread(examples)


async def _compare_with_one_by_one(
    store: Store, usual: dict[str, Any], conversation: str, has_listener: bool, times: list[int], gap: bool
) -> None:
    records = {conversation: _consistent(usual, conversation)}
    one, other = [await _loaded(store, dict(records), has_listener=has_listener) for _ in range(2)]
    first = records[conversation]["s"] + 1 + gap
    texts = [f"{conversation} {first + i} {first + i} 1 {LATER + late} {i}" for i, late in enumerate(times)]
    changes = [part for text in texts for part in ("message", text)]
    await store.cache.one(Call("apply", store.keys.user(one), (LATER + 5, "", *changes)))
    for text in texts:
        await store.cache.one(Call("apply", store.keys.user(other), (LATER + 5, "", "message", text)))
    assert await _contents(store, one) == await _contents(store, other)


async def test_a_state_that_only_receives_messages_lives_longer(store: Store) -> None:
    group, hour = ConversationId("g_1"), 3_600_000
    user = await _loaded(store, {group: PLAIN}, has_listener=True)
    keys = [store.keys.of_user(user, name) for name in ("meta", "sessions", "index", "list", "log", "routes")]
    for seq, at, all_of_it in ((4, LATER, False), (5, NOW + hour + 1, True)):
        await store.cache.run([Call("PEXPIRE", (key,), (hour,)) for key in keys])
        await store.cache.run(
            MessageApplier(store.keys, at, [MessageDelta(group, seq, seq, True, at, "an event", [user], {})]).calls()
        )
        lives = await store.cache.run([Call("PTTL", (key,)) for key in keys])
        assert all(life > hour for life in lives) is all_of_it
