"""Sessions of threads: a cached state that is changed by scripts equals the state that MongoDB's rows give."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import THREADS, ConversationId, UserId, bucket_of, gateway_id
from store.messages.message import MessageKind
from store.mongo.collections import CONVERSATIONS, MESSAGES, SESSIONS, session_row_id
from store.mongo.writes import Update, Write
from store.redis.cache import Call
from store.sessions.apply_messages import FanoutCalls, MessageDelta, MessageRelation
from store.sessions.apply_results import ApplyResult, parse_result
from store.sessions.changes import Join, Leave, Read, SetFields, logged_change
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from store.sessions.session_lists import is_thread
from store.sessions.threads.thread_changes import FollowThread, UnfollowThread
from store.store import Store

# Long ago: nothing may be on its way to the state.
NOW = 1_600_000_000_000
_numbers = itertools.count()
_message_ids = itertools.count(1)

_KINDS = ("reply", "reply", "own", "mention", "follow", "unfollow", "again", "read", "mute", "join_by_reply")
_step = st.tuples(st.sampled_from((*_KINDS, "leave", "rejoin", "look")), st.integers(0, 2))


class World:
    """A user, a group that they are a member of, and three threads: in MongoDB and in Redis."""

    def __init__(self, store: Store) -> None:
        number = next(_numbers)
        self.store = store
        self.user = UserId(f"ann{number}")
        self.group = ConversationId(f"g_{number}")
        self.threads = [
            ConversationId(f"t_1_{self.group}"),
            ConversationId(f"t_2_{self.group}"),
            ConversationId(f"t_3_p_{self.user}_ben"),
        ]
        self.seq = dict.fromkeys(self.threads, 0)
        self.written = dict.fromkeys(self.threads, 0)
        self.version = dict.fromkeys(self.threads, 0)
        self.follows: set[ConversationId] = set()
        self.known: set[ConversationId] = set()
        self.last: tuple[Any, int] | None = None
        self.group_seq = 1
        self.is_member = True
        self.now = NOW

    async def begin(self) -> None:
        """Store the group and the empty threads, and load the state."""
        heads = [{"_id": self.group, "k": "G", "s": 1, "n": 1, "at": NOW, "w": NOW, "gv": 1}]
        heads += [{"_id": thread, "k": "T", "s": 0, "n": 0, "at": NOW, "gv": 0} for thread in self.threads]
        await self.store.mongo.write([Write.inserts(CONVERSATIONS, heads)])
        await self.row(self.group, Join(self.group, 1, 1, None).row_update(NOW))
        await self.store.sessions.load(self.user)

    async def row(self, conversation: ConversationId, update: Any) -> None:
        """Update the row of a session."""
        query = {"_id": session_row_id(self.user, conversation)}
        await self.store.mongo.write([Write.updates(SESSIONS, [Update(query, update, upsert=True)])])

    async def apply(self, change: Any, event: str = "event", *, at: int = 0) -> ApplyResult:
        """Apply a change to the cached state."""
        call = self.store.sessions.apply_call(self.user, logged_change(change, at or self.now, event))
        result = parse_result(self.user, await self.store.cache.one(call))
        if isinstance(change, Join):
            # The state is dropped if threads are visible again.
            await self.store.sessions.load(self.user)
        else:
            assert result.epoch
        return result

    def sees(self, thread: ConversationId) -> bool:
        """Return whether the user sees the thread's parent conversation."""
        return self.is_member or thread == self.threads[2]

    async def step(self, kind: str, number: int) -> None:
        """Do one step. Some are not possible at the moment."""
        self.now += 10
        thread = self.threads[number]
        match kind:
            case "reply" | "own" | "mention":
                await self._reply(thread, kind)
            case "join_by_reply" if self.sees(thread) and thread not in self.follows:
                await self._follow(thread, self.seq[thread], 0)
                await self._reply(thread, "own")
            case "follow" if self.sees(thread) and thread not in self.follows:
                await self._follow(thread, self.seq[thread], self.written[thread])
            case "unfollow" if self.sees(thread) and thread in self.follows:
                self.version[thread] += 1
                self.follows.discard(thread)
                await self._change_membership(thread, UnfollowThread(thread, self.version[thread]))
            case "again" if self.last is not None:
                change, at = self.last
                assert not (await self.apply(change, at=at)).changed
            case "read" if self.sees(thread) and self.seq[thread]:
                await self._set(thread, read=True)
            case "mute" if self.sees(thread):
                await self._set(thread, read=False)
            case "leave" if self.is_member:
                self.group_seq += 1
                leave = Leave(self.group, self.group_seq - 1, self.group_seq - 1, NOW)
                self.is_member = False
                await self._change_group(leave)
            case "rejoin" if not self.is_member:
                self.group_seq += 1
                self.is_member = True
                await self._change_group(Join(self.group, self.group_seq, self.group_seq, None))
            case "look":
                await self.store.sessions.read_totals(self.user)

    async def _change_group(self, change: Any) -> None:
        seq = {"s": self.group_seq, "n": self.group_seq, "at": self.now, "w": self.now}
        await self.store.mongo.update_one(CONVERSATIONS, {"_id": self.group}, {"$max": seq})
        await self.row(self.group, change.row_update(self.now))
        await self.apply(change)
        if isinstance(change, Join):
            delta = MessageDelta(self.group, self.group_seq, self.group_seq, True, self.now, "joined", [self.user], {})
            await self._fan_out(delta)

    async def _change_membership(self, thread: ConversationId, change: Any) -> None:
        self.known.add(thread)
        await self.row(thread, change.row_update(self.now))
        await self.apply(change)
        self.last = change, self.now

    async def _follow(self, thread: ConversationId, seq: int, written_ms: int) -> None:
        self.version[thread] += 1
        self.follows.add(thread)
        await self._change_membership(thread, FollowThread(thread, seq, seq, self.version[thread], written_ms))

    async def _reply(self, thread: ConversationId, kind: str) -> None:
        self.seq[thread] = seq = self.seq[thread] + 1
        self.written[thread] = self.now
        place = {"s": seq, "n": seq, "at": self.now, "w": self.now}
        await self.store.mongo.update_one(CONVERSATIONS, {"_id": thread}, {"$max": place})
        stored = {
            "_id": next(_message_ids),
            "c": thread,
            "b": bucket_of(seq),
            "s": seq,
            "n": seq,
            "k": MessageKind.TEXT.value,
        }
        await self.store.mongo.write([Write.inserts(MESSAGES, [stored | {"ps": self.group_seq}])])
        if not self.sees(thread):
            return
        if thread not in self.follows:
            if kind == "mention":
                self.known.add(thread)
                mention = ChannelChange(thread, begins_at=(seq - 1, seq - 1), mention_seq=seq)
                await self.row(thread, mention.mention_update(self.now))
                assert (await self.apply(mention, f"{thread} {seq}")).changed
            return
        relation: MessageRelation | None = None
        if kind == "own":
            relation = "own"
            await self.row(thread, {"$max": {"r": seq, "rn": seq, "d": seq}, "$pull": {"ms": {"$lte": seq}}})
        elif kind == "mention":
            relation = "mention"
            await self.row(thread, {"$push": {"ms": seq}})
        relations = {self.user: relation} if relation else {}
        await self._fan_out(MessageDelta(thread, seq, seq, True, self.now, f"{thread} {seq}", [self.user], relations))

    async def _fan_out(self, delta: MessageDelta) -> None:
        calls = FanoutCalls(self.store.cache, self.now)
        calls.add_message(delta)
        await calls.run(self.store.cache.run)

    async def _set(self, thread: ConversationId, *, read: bool) -> None:
        seq = self.seq[thread]
        change: Any
        if thread in self.follows:
            change = Read(thread, seq, seq) if read else SetFields([thread], {Session.muted: seq % 2 == 0})
        elif read:
            change = ChannelChange(thread, (0, 0), read=(seq, seq))
        else:
            change = ChannelChange(thread, (seq, seq), values={Session.muted: seq % 2 == 0})
        self.known.add(thread)
        for name, update in change.row_updates(self.now).items():
            await self.row(name, update)
        await self.apply(change)

    async def compare(self) -> None:
        """Fail unless the cached state equals the one that a load would give."""
        store = self.store
        names = [self.group, *self.threads, gateway_id(THREADS)]
        cached = {
            session.conversation: session for session in (await store.sessions.find_many(self.user, names)).sessions
        }
        key = store.keys.of_user(self.user, "list")
        listed = await store.cache.one(Call("ZRANGE", (key,), (0, -1)))
        totals = await store.sessions.read_totals(self.user)
        loaded = await store.session_rows.read(self.user)
        assert {name for name in cached if is_thread(name)} == self.known
        assert {name: _stable(s) for name, s in cached.items()} == {
            name: _stable(Session(self.user, name, record)) for name, record in loaded.records.items()
        }
        assert sorted(text.decode() for text in listed) == sorted(loaded.lists.entries)
        assert totals == loaded.lists.totals
        self._judge(cached, totals.threads)

    def _judge(self, cached: dict[ConversationId, Session], threads: int) -> None:
        """Fail unless the sessions say what a naive count says."""
        shown = [cached[thread] for thread in self.threads if thread in self.follows and self.sees(thread)]
        assert threads == sum(session.unread_count > 0 and not session.muted for session in shown)
        inbox = cached.get(gateway_id(THREADS))
        assert (inbox.valid_inside if inbox is not None else 0) == len(shown)
        for thread in self.known:
            session = cached[thread]
            is_shown = thread in self.follows and self.sees(thread)
            assert (session.valid, session.follows) == (is_shown, thread in self.follows)
            if is_shown:
                assert session.unread_count == self.seq[thread] - session.read_count


def _stable(session: Session) -> dict[str, Any]:
    """Return a record without what is new after a load."""
    ignored = {"a", "g", "gv"} | ({"s", "n", "w", "f"} if session.hidden else set())
    return {name: value for name, value in session.record.items() if name not in ignored}


async def test_a_state_with_threads_equals_the_one_that_is_loaded(store: Store) -> None:
    """Hypothesis runs its examples on a thread of its own, and they run on this loop."""
    loop = asyncio.get_running_loop()

    @settings(max_examples=25)
    @given(st.lists(_step, max_size=14))
    def examples(steps: list[tuple[str, int]]) -> None:
        asyncio.run_coroutine_threadsafe(_run(store, steps), loop).result(30)

    await asyncio.to_thread(examples)


async def _run(store: Store, steps: list[tuple[str, int]]) -> None:
    world = World(store)
    await world.begin()
    for kind, number in steps:
        await world.step(kind, number)
    await world.compare()


async def test_a_follow_that_is_applied_after_leaving_the_group_shows_no_thread(store: Store) -> None:
    world = World(store)
    await world.begin()
    thread = world.threads[0]
    await world.step("reply", 0)
    await world.step("leave", 0)
    follow = FollowThread(thread, 1, 1, 1, world.now)
    await world.row(thread, follow.row_update(world.now))
    await store.cache.one(store.sessions.apply_call(world.user, logged_change(follow, world.now, "event")))
    await store.sessions.load(world.user)
    world.known.add(thread)
    world.follows.add(thread)
    await world.compare()


async def test_a_state_with_many_threads_is_loaded_again_when_they_are_hidden(store: Store) -> None:
    world = World(store)
    await world.begin()
    threads = [ConversationId(f"t_{number}_{world.group}") for number in range(10, 211)]
    heads = [{"_id": thread, "k": "T", "s": 1, "n": 1, "at": NOW, "gv": 1} for thread in threads]
    follows = [(thread, FollowThread(thread, 1, 1, 1).row_update(NOW)) for thread in threads]
    updates = [Update({"_id": session_row_id(world.user, thread)}, row, upsert=True) for thread, row in follows]
    await store.mongo.write([Write.inserts(CONVERSATIONS, heads), Write.updates(SESSIONS, updates)])
    await store.sessions.load(world.user)
    key = store.keys.of_user(world.user, "meta")
    await store.cache.one(Call("DEL", (key,)))
    await store.sessions.load(world.user)
    leave = Leave(world.group, 1, 1, NOW)
    await world.row(world.group, leave.row_update(NOW))
    call = store.sessions.apply_call(world.user, logged_change(leave, NOW, "event"))
    assert not parse_result(world.user, await store.cache.one(call)).epoch
    found = await store.sessions.find_many(world.user, threads)
    assert len(found.sessions) == len(threads) and all(session.hidden for session in found.sessions)
