"""The scripts on a user's keys, compared with a naive model: counts, total, order, clock, log."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import ConversationId, UserId, private_id
from store.mongo.collections import SESSIONS, session_row_id
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from store.sessions.apply_messages import FanoutCalls, FanoutResult, MessageDelta, MessageRelation
from store.sessions.apply_results import ApplyResult, parse_result
from store.sessions.changes import Change, Join, Read, SetFields, logged_change
from store.sessions.fields import MAX_UNREAD_MENTIONS, Field
from store.sessions.session import Session
from store.sessions.session_rows import Tick
from store.store import Store

USER = UserId("ann")
GROUP = ConversationId("g_1")
START = 1_795_000_000_000
_names = itertools.count()


async def _member_of(store: Store, *groups: ConversationId) -> UserId:
    """Return a new user, whose state is loaded."""
    user = UserId(f"{USER}{next(_names)}")
    await store.sessions.load(user)
    for group in groups:
        await _apply(store, user, Join(group, 0, 0, None), START)
    return user


async def _apply(store: Store, user: UserId, change: Change, at: int) -> ApplyResult:
    call = store.sessions.apply_call(user, logged_change(change, at, "{}"))
    return parse_result(user, await store.cache.one(call))


def _message(seq: int, n: int, *, countable: bool = True) -> dict[str, Any]:
    return {"s": seq, "n": n, "k": int(countable), "at": START + 10, "e": str(seq)}


async def _apply_message(
    store: Store, user: UserId, group: ConversationId, change: dict[str, Any], kind: MessageRelation | None = None
) -> FanoutResult:
    kinds: dict[UserId, MessageRelation] = {user: kind} if kind else {}
    delta = MessageDelta(group, change["s"], change["n"], change["k"] == 1, change["at"], change["e"], [user], kinds)
    calls = FanoutCalls(store.cache, store.clock.now_ms())
    result = calls.add_message(delta)
    await calls.run(store.cache.run)
    return result


async def test_messages_in_any_order_count_once_and_are_logged_once(store: Store) -> None:
    async def arrive(order: list[int]) -> None:
        user = await _member_of(store, GROUP)
        epoch, clock, _ = since = await store.sessions.attach(user, "server", store.clock.now_ms() + 60_000)
        for seq in order + order:
            result = await _apply_message(store, user, GROUP, _message(seq, seq))
            places = [(o.epoch, o.tick, o.previous) for _, o in result.others if o.changed]
            for place in places + [place[1:] for place in result.recipients.get("server", ())]:
                assert place == (epoch, place[1], clock)
                assert place[1] > clock
                clock = place[1]
        session = await store.sessions.find(user, GROUP)
        assert session is not None
        assert (session.write_seq, session.unread_count) == (max(order), max(order))
        log = await store.sessions.read_log(user, epoch, since[1], 100)
        assert [text for _, _, text in log or []] == [str(seq).encode() for seq in order]

    for order in ([1, 2, 3], [3, 2, 1], [2, 3, 1], [4, 1, 3, 2]):
        await arrive(order)


async def test_mentions_in_any_order_are_kept_in_the_order_of_the_messages(store: Store) -> None:
    for order in ([1, 2, 3], [3, 2, 1], [2, 3, 1]):
        user = await _member_of(store, GROUP)
        for seq in order:
            await _apply_message(store, user, GROUP, _message(seq, seq), "mention")
        session = await store.sessions.find(user, GROUP)
        assert session is not None and list(session.mentions) == [1, 2, 3]


async def test_own_messages_read_and_system_messages_never_count(store: Store) -> None:
    user = await _member_of(store, GROUP)
    await _apply_message(store, user, GROUP, _message(1, 1))
    await _apply_message(store, user, GROUP, _message(2, 1, countable=False))
    session = await store.sessions.find(user, GROUP)
    assert session is not None
    assert (session.unread_count, session.write_seq) == (1, 2)
    ((_, outcome),) = (await _apply_message(store, user, GROUP, _message(3, 2), "own")).others
    assert outcome.session is not None
    assert (outcome.session.unread_count, outcome.session.read_seq, outcome.old_unread) == (0, 3, 1)
    assert (await store.sessions.find_many(user, ())).total_unread == 0


async def test_a_repeated_membership_update_removes_nothing(store: Store) -> None:
    """A server that takes over a dead server's message repeats the update, after other messages have come."""
    user = await _member_of(store)
    joining = Join(GROUP, 1, 0, None)
    assert (await _apply(store, user, joining, START)).changed
    for seq in (2, 3):
        await _apply_message(store, user, GROUP, _message(seq, seq - 1))
    session = await store.sessions.find(user, GROUP)
    assert session is not None and session.unread_count == 2
    again = await _apply(store, user, joining, START)
    assert (again.changed, again.session) == (False, session)


async def test_mentions_are_counted_up_to_the_stored_limit(store: Store) -> None:
    user = await _member_of(store, GROUP)
    seqs = range(1, MAX_UNREAD_MENTIONS + 6)
    for seq in seqs:
        await _apply_message(store, user, GROUP, _message(seq, seq), "mention")
    session = await store.sessions.find(user, GROUP)
    assert session is not None
    assert (session.unread_count, session.unread_mention_count) == (len(seqs), MAX_UNREAD_MENTIONS)
    # The newest ones stay.
    await _apply(store, user, Read(GROUP, 105, 105), START + 20)
    session = await store.sessions.find(user, GROUP)
    assert session is not None and session.unread_mention_count == MAX_UNREAD_MENTIONS - 100


async def test_every_loaded_part_of_a_state_extends_the_loaders_claim(store: Store) -> None:
    user = UserId(f"{USER}{next(_names)}")
    keys = store.keys.user(user)
    assert await store.cache.one(Call("load_begin", keys, (START, "mine", 5_000))) == b"go"
    assert await store.cache.one(Call("load_part", keys, (START, "loading", "mine", 60_000))) == 1
    assert await store.cache.one(Call("PTTL", (store.keys.of_user(user, "loading"),))) > 50_000


async def test_a_tick_that_arrives_late_moves_nothing_back(store: Store) -> None:
    user, gateway = UserId(f"{USER}{next(_names)}"), ConversationId("b_shop")
    talk = private_id(user, UserId("ben"))
    await store.conversations.open_private(talk, START)
    for tick in (START + 7, START + 3):
        await store.session_rows.keep_ticks([Tick(user, talk, tick), Tick(user, gateway, tick)])
    for conversation in (talk, gateway):
        row = await store.mongo.find_one(SESSIONS, {"_id": session_row_id(user, conversation)})
        assert row is not None and row["a"] == START + 7


async def test_a_partly_evicted_state_counts_as_not_loaded(store: Store) -> None:
    for part in range(4):
        user = await _member_of(store, GROUP)
        epoch = (await store.sessions.find_many(user, ())).epoch
        await store.cache.one(Call("DEL", (store.keys.of_user(user, USER_KEYS[part]),)))
        await _apply_message(store, user, GROUP, _message(1, 1))
        assert (await store.sessions.find_many(user, ())).epoch != epoch, USER_KEYS[part]


async def test_every_key_of_a_user_expires(store: Store) -> None:
    """Keys are created at different times, some of them several times."""
    user, keys = await _member_of(store, GROUP), USER_KEYS[:7]

    async def check(*there: str) -> None:
        lives = await store.cache.run([Call("PTTL", (store.keys.of_user(user, name),)) for name in keys])
        assert {name for name, life in zip(keys, lives, strict=True) if life > 0} == {"meta", *there}
        assert -1 not in lives

    parts = ("sessions", "index", "log")
    await check(*parts, "list")
    for number in range(2):
        at = START + 100 * number

        async def set_fields(values: dict[Field[Any], Any], at: int = at) -> None:
            await _apply(store, user, SetFields([GROUP], values), at + 1)

        await set_fields({Session.muted: True, Session.muted_until_ms: START * 2})
        await check(*parts, "list", "mutes")
        await set_fields({Session.muted: False, Session.muted_until_ms: None})
        await check(*parts, "list")
        await set_fields({Session.deleted_seq: number, Session.deleted_n: number})
        await check(*parts)
        await _apply_message(store, user, GROUP, _message(number + 1, number + 1))
        assert await store.sessions.find(user, GROUP)
        await check(*parts, "list")
        await store.cache.one(Call("DEL", (store.keys.of_user(user, "log"),)))
        await set_fields({Session.priority: number + 1})
        await check(*parts, "list")
    await store.sessions.attach(user, "server", store.clock.now_ms() + 60_000)
    await check(*parts, "list", "routes")
    await _apply_message(store, user, ConversationId("g_2"), _message(1, 1))
    assert await store.cache.one(Call("EXISTS", (store.keys.of_user(user, "meta"),))) == 0


async def test_changes_during_a_load_are_in_the_loaded_state(store: Store) -> None:
    user = UserId(f"{USER}{next(_names)}")
    keys = store.keys.user(user)
    assert await store.cache.one(Call("load_begin", keys, (START, "mine", 5_000))) == b"go"
    assert await store.cache.one(Call("load_begin", keys, (START, "other", 5_000))) == b"busy"
    assert await _apply_message(store, user, ConversationId("p_a_ann"), _message(1, 1)) == FanoutResult()
    assert await store.cache.one(Call("load_finish", keys, (START, "stale", "e", START, 0, 0, 0, 0, ""))) == 0
    assert await store.cache.one(Call("load_finish", keys, (START, "mine", "e", START, 0, 0, 0, 0, ""))) != 0
    session = await store.sessions.find(user, ConversationId("p_a_ann"))
    assert session is not None
    assert session.unread_count == 1


async def test_concurrent_requests_load_a_missing_state_once(store: Store) -> None:
    user = UserId(f"{USER}{next(_names)}")
    before = store.mongo.trips
    await asyncio.gather(*(store.sessions.find_many(user, ()) for _ in range(50)))
    assert store.mongo.trips - before <= 2


_steps = st.lists(
    st.tuples(st.sampled_from(["message", "system", "own", "read"]), st.integers(0, 2), st.integers(0, 5)), max_size=25
)


async def test_counts_total_and_order_equal_a_naive_model(store: Store) -> None:
    """Hypothesis runs its examples on a thread of their own, and they run on this loop."""
    loop = asyncio.get_running_loop()

    @settings(max_examples=60)
    @given(_steps)
    def examples(steps: list[tuple[str, int, int]]) -> None:
        asyncio.run_coroutine_threadsafe(_compare(store, steps), loop).result(20)

    await asyncio.to_thread(examples)


async def _compare(store: Store, steps: list[tuple[str, int, int]]) -> None:
    groups = [ConversationId(f"g_{number}") for number in range(3)]
    user = await _member_of(store, *groups)
    kinds: dict[ConversationId, list[str]] = {group: [] for group in groups}
    read = dict.fromkeys(groups, 0)
    moved: list[ConversationId] = []
    for kind, number, back in steps:
        group = groups[number]
        history = kinds[group]
        if kind == "read":
            upto = max(0, len(history) - back)
            n = sum(1 for k in history[:upto] if k != "system")
            now = START + 100 + len(moved)
            await _apply(store, user, Read(group, upto, n), now)
            read[group] = max(read[group], upto)
            continue
        history.append(kind)
        n = sum(1 for k in history if k != "system")
        change = _message(len(history), n, countable=kind != "system")
        change["at"] = START + 100 + 10 * len(moved)
        await _apply_message(store, user, group, change, "own" if kind == "own" else None)
        if kind == "own":
            read[group] = len(history)
        if kind != "system":
            moved.append(group)
    total = 0
    for group in groups:
        expected = sum(1 for kind in kinds[group][read[group] :] if kind == "message")
        session = await store.sessions.find(user, group)
        assert session is not None
        assert (session.unread_count, session.write_seq) == (expected, len(kinds[group]))
        assert session.read_seq == read[group]
        total += expected
    page = await store.sessions.list_page(user, "m", 10, None)
    assert page.total_unread == total
    order = [session.conversation for session in page.sessions]
    last_moved = list(dict.fromkeys(reversed(moved)))
    assert order[: len(last_moved)] == last_moved
    changed = await store.sessions.list_changed(user, 0, 10, valid_until=0)
    times = [session.active_ts for session in changed.sessions]
    assert times == sorted(set(times))
