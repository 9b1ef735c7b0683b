"""Messages that wait to be applied to sessions: a state that they were folded into equals one without waiting."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import ConversationId, UserId
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from store.sessions.apply_messages import FanoutCalls, FanoutResult, MessageDelta, MessageRelation
from store.sessions.apply_results import ApplyResult, parse_result
from store.sessions.script_constants import MAX_WAITING
from store.sessions.session import WaitingMessages, waiting_field, waiting_from
from store.sessions.session_rows import Tick
from store.store import Store
from tests.conftest import of_one_redis
from tests.store.loading import load_calls, state_of

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
    ("event", {}),
)
_gateway_changes: tuple[dict[str, Any], ...] = (
    {"f": {"m": 1}, "u": [], "w": 0},
    {"f": {"p": 3}, "u": ["m"], "w": 0},
    {"f": {"p": 0}, "u": [], "w": 1},
)
_step = st.one_of(
    st.tuples(st.sampled_from(_kinds), st.integers(0, 4), st.sampled_from((1, 1, 1, 1, 0, 2)), st.integers(0, 3)),
    st.tuples(st.just("change"), st.integers(0, 4), st.integers(0, len(_changes) - 1), st.just(0)),
    st.tuples(st.just("change gateway"), st.just(4), st.integers(0, len(_gateway_changes) - 1), st.just(0)),
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


async def _loaded(store: Store, records: Mapping[str, Mapping[str, Any]], *, has_listener: bool = False) -> UserId:
    user = UserId(f"ann{next(_names)}")
    calls = load_calls(store.keys, state_of(user, records, NOW + 10), NOW)
    if has_listener:
        calls.append(Call("attach", store.keys.user(user), (NOW, "server", NOW + 900_000)))
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


async def _read(store: Store, user: UserId, conversation: str, now: int) -> Any:  # Lua puts fields in any order.
    answer = await store.cache.one(Call("get_sessions", store.keys.user(user), (now, conversation)))
    return [*answer[:3], *(record and orjson.loads(record) for record in answer[3:])]


def _positions(result: FanoutResult, user: UserId) -> Any:
    """Return the event's position for the user, and the ticks to store."""
    positions = [recipient[1:] for recipient in result.recipients.get("server", ()) if recipient[0] == user]
    positions += [(o.epoch, o.tick, o.previous) for u, o in result.others if u == user and o.changed and o.routes]
    return positions


def _own_result(outcome: ApplyResult) -> Any:
    """Return what the sender of a message learns."""
    records = [session.record for session in outcome.sessions[:1]]
    return outcome.changed, outcome.tick, outcome.previous, outcome.old_read_seq, outcome.old_unread, records


@pytest.mark.parametrize("count", [60, pytest.param(400, marks=pytest.mark.long)])
async def test_a_folded_state_equals_one_in_which_nothing_waited(store: Store, count: int) -> None:
    """Hypothesis runs its examples on a thread of their own, and they run on this loop."""
    loop = asyncio.get_running_loop()

    @settings(max_examples=count)
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
                await _change_both(store, waiting, other, name, {**fields, **where, "at": now, "e": "change"})
            elif kind == "change gateway":
                # A transaction's time is later than the user's clock, so it moves the gateway's write_ts.
                now += 1
                fields = {**_gateway_changes[number], "cs": ["b_shop"], "at": now, "e": "change"}
                await _change_both(store, waiting, other, "set", fields)
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


async def _change_both(store: Store, waiting: UserId, other: UserId, kind: str, fields: Mapping[str, Any]) -> None:
    """Apply a change to both states, and compare what the user's devices learn from it."""
    text = orjson.dumps(fields)
    calls = [Call("apply", store.keys.user(user), (fields["at"], "", kind, text)) for user in (waiting, other)]
    left, right = [parse_result(UserId("ann"), answer) for answer in await store.cache.run(calls)]
    assert left == right


async def _two(store: Store, **extra: Any) -> list[UserId]:
    return [await _loaded(store, {GROUP: PLAIN | extra}, has_listener=has_listener) for has_listener in (True, False)]


def _delta(seq: int, users: Sequence[UserId], **relations: MessageRelation) -> MessageDelta:
    by_user = {UserId(user): relation for user, relation in relations.items()}
    return MessageDelta(GROUP, seq, seq, True, LATER + seq, str(seq), users, by_user)


async def _commands(store: Store) -> Counter[str]:
    """Return how often Redis executed each command so far."""
    stats = (await store.cache.one(Call("INFO", (), ("commandstats",)))).decode()
    return Counter({name: int(calls) for name, calls in re.findall(r"cmdstat_(\w+):calls=(\d+)", stats)})


async def test_a_waiting_message_says_whether_it_is_own_or_mentions_the_user(store: Store) -> None:
    """A reservation reads it together with the session's record."""
    (user,) = [await _loaded(store, {GROUP: PLAIN})]
    steps: list[tuple[MessageRelation | None, WaitingMessages]] = [
        (None, WaitingMessages(0, False)),
        ("own", WaitingMessages(5, False)),
        (None, WaitingMessages(5, False)),
        ("mention", WaitingMessages(5, True)),
        ("own", WaitingMessages(8, True)),
    ]
    for seq, (relation, expected) in enumerate(steps, start=4):
        await _fan_out(store, LATER, [_delta(seq, [user], **({user: relation} if relation else {}))])
        noted = await store.cache.one(Call("HGET", store.keys.user(user), (waiting_field(GROUP),)))
        assert waiting_from(noted) == expected
    assert waiting_from(None) == WaitingMessages(0, False)


@of_one_redis
async def test_a_message_takes_three_commands_for_each_member(store: Store) -> None:
    """Four if no message waits. The user's own message is a read of the state, too. All members share one call."""
    users = await _two(store)
    await _fan_out(store, LATER, [_delta(4, users)])
    await asyncio.gather(*(_read(store, user, GROUP, LATER) for user in users))
    append = Counter(hmget=2, xadd=2, hset=2)
    for seqs, extra in (
        ([5], Counter(hget=2)),
        ([6], Counter()),
        ([7, 8], Counter(xadd=2)),
        ([9], Counter(hget=1, hmget=1, hlen=1, zcard=2)),
    ):
        deltas = [_delta(seq, users, **({users[0]: "own"} if seq == 9 else {})) for seq in seqs]
        before = await _commands(store)
        await _fan_out(store, LATER, deltas)
        assert await _commands(store) - before == append + extra + Counter(evalsha=1, info=1)


async def test_the_answer_for_a_message_has_what_is_published_and_stored(store: Store) -> None:
    with_listener, silent = await _two(store)
    (result,) = await _fan_out(store, LATER, [_delta(4, [with_listener, silent])])
    assert result == FanoutResult({"server": [(with_listener, "epoch", LATER + 4, NOW + 10)]})
    # The next one is as old as the last one: it takes a tick of its own, which MongoDB has to store.
    late = MessageDelta(GROUP, 5, 5, True, LATER, "5", [silent, with_listener], {})
    (result,) = await _fan_out(store, LATER, [late])
    assert result.recipients == {"server": [(with_listener, "epoch", LATER + 5, LATER + 4)]}
    assert result.ticks == [Tick(silent, GROUP, LATER + 5), Tick(with_listener, GROUP, LATER + 5)]


async def test_messages_applied_together_keep_their_order_in_the_events(store: Store) -> None:
    """The recipients: one who wrote one of the messages, one who missed one, and one who has received one already."""
    users = [await _loaded(store, {GROUP: PLAIN}, has_listener=has_listener) for has_listener in (True,) * 4 + (False,)]
    plain, writer, late, ahead, silent = users
    await _fan_out(store, LATER, [_delta(4, [ahead])])
    deltas = [_delta(4, [plain, writer, ahead, silent]), _delta(5, users, **{writer: "own"}), _delta(6, users)]
    four, five, six = await _fan_out(store, LATER, deltas)
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
        session = await store.sessions.find(user, GROUP)
        assert session is not None
        assert (session.write_seq, session.unread_count) == (6, 1 if user == writer else 5)


async def test_reading_events_leaves_messages_waiting(store: Store) -> None:
    user, _ = await _two(store)
    await _fan_out(store, LATER, [_delta(4, [user])])
    clock = await store.sessions.attach(user, "server", NOW + 90_000)
    assert clock[1] == LATER + 4
    assert await store.sessions.read_log(user, "epoch", NOW + 10, 10) == [(LATER + 4, NOW + 10, b"4")]
    assert await store.cache.one(Call("HGET", store.keys.user(user), ("waiting",))) == b"1"
    session = await store.sessions.find(user, GROUP)
    assert session is not None and (session.write_seq, session.active_ts) == (4, LATER + 4)
    assert await store.cache.one(Call("HGET", store.keys.user(user), ("waiting",))) == b"0"


async def test_messages_of_many_conversations_are_folded_by_the_message_after_the_last(store: Store) -> None:
    names = [ConversationId(f"g_{number}") for number in range(MAX_WAITING + 1)]
    user = await _loaded(store, dict.fromkeys(names, PLAIN), has_listener=True)
    deltas = [MessageDelta(name, 4, 4, True, LATER + i, name, [user], {}) for i, name in enumerate(names)]
    results = await _fan_out(store, LATER, deltas)
    assert [result.recipients["server"][0][2] for result in results[:-1]] == [LATER + i for i in range(MAX_WAITING)]
    (last,) = results[-1].others
    assert last[1].changed and last[1].previous == LATER + MAX_WAITING - 1
    meta = await store.cache.one(Call("HGETALL", store.keys.user(user)))
    assert not [name for name in meta[::2] if name.startswith(b"w:")]
    page = await store.sessions.list_page(user, "m", 300, None)
    assert [session.conversation for session in page.sessions] == names[::-1]
    assert page.total_unread == 3 * len(names)


@pytest.mark.parametrize("evicted", ["meta", "sessions", "index", "list", "log", "one waiting message"])
async def test_a_state_that_lost_a_part_while_messages_waited_is_loaded_again(store: Store, evicted: str) -> None:
    """The log alone is not needed: subscribers that miss an event in it start over."""
    user, _ = await _two(store)
    await _fan_out(store, LATER, [_delta(4, [user])])
    if evicted == "one waiting message":
        await store.cache.one(Call("HDEL", store.keys.user(user), (f"w:{GROUP}",)))
    else:
        await store.cache.one(Call("DEL", (store.keys.of_user(user, evicted),)))
    found = await _read(store, user, GROUP, LATER)
    if evicted == "log":
        assert found[3]["s"] == 4
        assert await store.sessions.read_log(user, "epoch", NOW + 10, 10) is None
        await _fan_out(store, LATER, [_delta(5, [user])])
        assert await store.sessions.read_log(user, "epoch", LATER + 4, 10) == [(LATER + 5, LATER + 4, b"5")]
    else:
        assert found == []


@pytest.mark.parametrize("seq", [4, 6])
@pytest.mark.parametrize(
    "damage",
    [
        ("SET", "meta", "x"),
        ("SET", "sessions", "x"),
        ("SET", "log", "x"),
        ("SET", "list", "x"),
        ("HSET", "sessions", GROUP, "{"),
        ("HSET", "sessions", GROUP, '{"s":3,'),
        ("HSET", "meta", "clock", "x"),
        ("HSET", "meta", "waiting", "x", f"w:{GROUP}", "x"),
    ],
    ids=" ".join,
)
async def test_a_damaged_state_is_dropped_and_all_others_are_served(
    store: Store, damage: tuple[str, ...], seq: int
) -> None:
    users = [await _loaded(store, {GROUP: PLAIN}, has_listener=True) for _ in range(3)]
    command, key, *values = damage
    name = store.keys.of_user(users[1], key)
    await store.cache.run([Call("DEL", (name,))] * (command == "SET") + [Call(command, (name,), tuple(values))])
    relations: dict[str, MessageRelation] = {users[0]: "own", users[2]: "mention"}
    (result,) = await _fan_out(store, LATER, [_delta(seq, users, **relations)])
    reached = {recipient[0] for recipient in result.recipients.get("server", ())} | {user for user, _ in result.others}
    assert {users[0], users[2]} <= reached
    if users[1] not in reached:
        keys = [store.keys.of_user(users[1], name) for name in USER_KEYS[:4]]
        assert await store.cache.one(Call("EXISTS", (keys[0],), tuple(keys[1:]))) == 0
    for user in (users[0], users[2]):
        assert (await _read(store, user, GROUP, LATER))[3]["s"] == seq


async def test_a_user_who_left_gets_no_later_message(store: Store) -> None:
    users = await _two(store)
    leave = orjson.dumps({"c": GROUP, "f": 4, "at": LATER + 5, "e": "left"})
    await _fan_out(store, LATER, [_delta(4, users)])
    await store.cache.one(Call("apply", store.keys.user(users[0]), (LATER, "", "leave", leave)))
    (result,) = await _fan_out(store, LATER, [_delta(5, users)])
    assert result.recipients == {}
    assert [(user, outcome.changed) for user, outcome in result.others] == [(users[0], False)]
    assert [(await _read(store, user, GROUP, LATER))[3]["s"] for user in users] == [4, 5]


async def test_a_state_that_only_receives_messages_lives_longer(store: Store) -> None:
    hour = 3_600_000
    user = await _loaded(store, {GROUP: PLAIN}, has_listener=True)
    keys = [store.keys.of_user(user, name) for name in ("meta", "sessions", "index", "list", "log", "routes")]
    for seq, at, all_of_it in ((4, LATER, False), (5, NOW + hour + 1, True)):
        await store.cache.run([Call("PEXPIRE", (key,), (hour,)) for key in keys])
        await _fan_out(store, at, [MessageDelta(GROUP, seq, seq, True, at, "an event", [user], {})])
        lives = await store.cache.run([Call("PTTL", (key,)) for key in keys])
        assert all(life > hour for life in lives) is all_of_it
