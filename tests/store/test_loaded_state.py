"""States as a load builds them in Python, compared with those that scripts build by changes."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import ConversationId, UserId
from store.redis.cache import Call
from store.sessions.apply_results import parse_results
from store.sessions.loading.loaded_channels import LoadedChannels
from store.sessions.loading.loaded_state import LoadedState, Snapshot
from store.sessions.session import Session
from store.sessions.session_store import list_name
from store.store import Store
from tests.store.loading import channel_load_calls, channels_of, load_calls, state_of

NOW = 1_900_000_000_000
_numbers = itertools.count()
_names = ("g_1", "g_2", "g_3", "p_ann_ben", "p_ann_cara~shop", "p_ann_dan~spa", "c_7.1", "c_7.2", "c_8.1")
_threads = ("t_1_g_1", "t_2_g_1", "t_3_p_ann_cara~shop", "t_4_c_7.1")
_conversations = st.sampled_from((*_names, *_threads))


@st.composite
def _records(draw: st.DrawFn, conversation: str) -> dict[str, Any]:
    """A record as scripts may find it."""
    seq = draw(st.integers(0, 4))
    n, read_seq = draw(st.integers(0, seq)), draw(st.integers(0, seq))
    record = {"s": seq, "n": n, "r": read_seq, "rn": draw(st.integers(0, n)), "d": draw(st.integers(read_seq, seq))}
    record |= {"p": draw(st.integers(0, 2)), "w": NOW + draw(st.integers(0, 3))}
    if draw(st.booleans()):
        record["x"], record["xn"] = draw(st.integers(0, seq)), draw(st.integers(0, n))
    if seq and draw(st.booleans()):
        record["ms"] = draw(st.lists(st.integers(1, seq), min_size=1, unique=True).map(sorted))
    if draw(st.booleans()):
        record["m"] = 1
        if draw(st.booleans()):
            record["mu"] = str(NOW + 90_000 + draw(st.integers(0, 3)))
    for name, value in (("dd", 1), ("ca", "work"), ("ca", "home"), ("f", seq), ("us", seq)):
        if draw(st.integers(0, 3)) == 0:
            record[name] = value
    if conversation.startswith("p_"):
        record |= {"pr": draw(st.integers(0, seq)), "pd": draw(st.integers(0, seq))}
    if conversation.startswith("c_"):
        for name in {"x", "xn", "dd", "ca", "f"} & record.keys():
            del record[name]
        return record | ({"fw": 1} if draw(st.booleans()) else {})
    if conversation.startswith("t_"):
        del record["w"]
        record = {name: value for name, value in record.items() if name not in ("dd", "f")}
        record |= {"w": NOW} | draw(st.sampled_from(({}, {"fw": 1, "sb": "@threads"}, {"fw": 1, "sb": "@threads"})))
        return record | ({"hi": 1} if draw(st.integers(0, 3)) == 0 else {})
    sub_biz = conversation.partition("~")[2] or draw(st.sampled_from(("", "", "shop")))
    return record | ({"sb": sub_biz} if sub_biz and ("~" in conversation or conversation.startswith("g_")) else {})


@st.composite
def _states(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    names = draw(st.lists(_conversations, max_size=6, unique=True))
    # A change that makes somebody a member of a group drops a state with hidden threads of that group.
    names.sort(key=lambda name: name.startswith("t_"))
    return {name: draw(_records(name)) | {"a": NOW + 100 + 10 * i} for i, name in enumerate(names)}


async def test_a_loaded_state_equals_the_same_state_built_by_changes(store: Store) -> None:
    """Hypothesis runs its examples on a thread of its own; their coroutines run on this loop."""
    await store.cache.load_scripts()
    loop = asyncio.get_running_loop()

    @settings(max_examples=75)
    @given(_states())
    def examples(records: dict[str, dict[str, Any]]) -> None:
        asyncio.run_coroutine_threadsafe(_compare(store, records), loop).result(20)

    await asyncio.to_thread(examples)


async def _compare(store: Store, records: dict[str, dict[str, Any]]) -> None:
    loaded, changed = (UserId(f"ann{next(_numbers)}") for _ in range(2))
    clock = max((record["a"] + ("sb" in record) for record in records.values()), default=NOW)
    in_channels = {name: record for name, record in records.items() if name.startswith("c_")}
    channels = channels_of(in_channels)
    state = state_of(loaded, {name: record for name, record in records.items() if name not in in_channels}, clock)
    await store.cache.run(load_calls(store.keys, state, NOW))
    await store.cache.run(channel_load_calls(store.keys, loaded, channels, NOW))
    await store.cache.run(load_calls(store.keys, state_of(changed, {}, NOW), NOW))
    await store.cache.run(channel_load_calls(store.keys, changed, channels_of({}), NOW))
    for name, record in records.items():
        join = orjson.dumps({"c": name, "rec": record, "at": record["a"], "e": "{}"})
        answer = await store.cache.one(Call("apply", store.keys.user(changed), (NOW, "", "join", join)))
        assert parse_results(changed, answer)[0].changed
    assert await _contents(store, loaded) == await _contents(store, changed)
    await _compare_answers(store, state)
    await _compare_channels(store, state, channels)


async def _contents(store: Store, user: UserId) -> list[Any]:
    """Return the keys of a user. Of each record also the order of its leading fields."""
    keys = {name: store.keys.of_user(user, name) for name in (*_HASHES, *_SETS)}
    sessions, channels, meta, *sets = await store.cache.run(
        [
            *(Call("HGETALL", (keys[name],)) for name in _HASHES),
            *(Call("ZRANGE", (keys[name],), (0, -1, "WITHSCORES")) for name in _SETS),
        ]
    )
    records = {name: orjson.loads(text) for name, text in _pairs([*sessions, *channels]).items()}
    leading = {name: [field for field in record if field in _LEADING] for name, record in records.items()}
    fields = {b"due": b""} | _pairs(meta)
    del fields[b"touched"]
    return [records, leading, fields, *map(_pairs, sets)]


_HASHES, _SETS = ("sessions", "channels", "meta"), ("index", "list", "mutes", "channel_index", "channel_list")

_LEADING = ("s", "n", "r", "rn", "d", "p", "a", "w", "pr", "pd")


def _pairs(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def _compare_answers(store: Store, state: LoadedState) -> None:
    """Fail unless a state answers as Redis does."""
    sessions, user = store.sessions, state.user
    lists = [
        (sub_biz, category) for sub_biz in (None, "shop", "spa", "@threads") for category in (None, "work", "home")
    ]
    for sub_biz, category in lists:
        name, after = list_name(sub_biz, category), None
        for limit in (1, 2, 10):
            page = await sessions.list_page(user, name, limit, after)
            assert _plain(state.page(name, limit, after)) == _plain(page)
            if page.sessions:
                after = (page.positions[-1], page.sessions[-1].conversation)
    for after_tick, valid_until in ((0, 0), (0, 1 << 53), (0, NOW + 115), (NOW + 110, 0), (state.clock, 0)):
        for limit in (2, 20):
            delta = await sessions.list_changed(user, after_tick, limit, valid_until=valid_until)
            assert _plain(state.changed(after_tick, limit, valid_until=valid_until)) == _plain(delta)
    names = [ConversationId(name) for name in ("b_shop", "b_@threads", "g_1", "g_unknown", "p_ann_ben", *_threads)]
    present = await sessions.find_many(user, names)
    assert _plain(state.find(names)) == _plain(present)
    assert await sessions.read_totals(user) == state.lists.totals == _totals(list(state.records), state)
    for session in present.sessions:
        _compare_rules(session, [entry.partition("\n")[0] for entry in _entries_of(state, session)])


async def _compare_channels(store: Store, state: LoadedState, channels: LoadedChannels) -> None:
    """Fail unless Redis answers about channels by the rules of `Session`."""
    sessions, user = store.sessions, state.user
    stored = [Session(user, name, record) for name, record in channels.records.items()]
    followed = [session.conversation for session in stored if session.follows]
    mentions = {s.conversation: s.unread_mention_count for s in stored if s.unread_mention_count and not s.muted}
    totals = await sessions.read_all_totals(user)
    assert totals == (*state.lists.totals, mentions)
    for after_tick in (0, NOW + 115, state.clock):
        for limit in (2, 20):
            moved = sorted((s for s in stored if s.active_ts > after_tick), key=lambda session: session.active_ts)
            found = await sessions.list_changed_channels(user, after_tick, limit)
            assert _plain(found.snapshot)[3] == [(s.conversation, s.record) for s in moved[:limit]]
            assert (found.totals, sorted(found.followed)) == (totals, sorted(followed))
    for name in ("f7", "f8", "f"):
        listed = [session.conversation for session in (await sessions.list_followed(user, name)).sessions]
        assert sorted(listed) == sorted(one for one in followed if f"f{one[2]}".startswith(name))
    both = [ConversationId(name) for name in ("g_1", "c_7.1", "c_7.2")]
    expected = sorted([(s.conversation, s.record) for s in (*stored, *state.find(both).sessions)], key=str)
    assert sorted(_plain(await sessions.find_many(user, both))[3], key=str) == [e for e in expected if e[0] in both]


def _compare_rules(session: Session, listed: list[str]) -> None:
    """Fail unless a session is in the lists that its properties say."""
    is_in_list = (f"b{session.sub_biz}" if session.sub_biz else "m") in listed
    is_undelivered = session.valid and session.delivered_seq < session.write_seq
    assert (is_in_list, "o" in listed) == (session.valid, is_undelivered)


def _totals(names: list[ConversationId], state: LoadedState) -> tuple[int, int, int]:
    """Return the sums of the main list, with the mentions in threads that are not followed."""
    found = [session for session in state.find(names).sessions if not session.muted]
    counted = [session for session in found if session.valid and session.sub_biz is None]
    inbox = next((session for session in counted if session.conversation == "b_@threads"), None)
    inside = [s for s in found if s.conversation.startswith("t_") and s.valid and s.unread_count] if inbox else []
    aside = [s for s in found if s.conversation.startswith("t_") and not s.follows and not s.hidden]
    mentions = sum(s.unread_mention_count for s in (*counted, *aside))
    return sum(s.unread_count for s in counted), mentions, len(inside)


def _entries_of(state: LoadedState, session: Session) -> list[str]:
    return [entry for entry in state.lists.entries if entry.endswith(f"\n{session.conversation}")]


def _plain(snapshot: Snapshot) -> Any:
    sessions = [(session.conversation, session.record) for session in snapshot.sessions]
    return snapshot.epoch, snapshot.clock, snapshot.total_unread, sessions, snapshot.positions
