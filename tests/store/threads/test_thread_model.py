"""Places of replies and changes of followers against a naive model, with heads that are evicted at any moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import UserId
from store.conversations.conversation_fields import NO_END
from store.messages.message import ReservedMessage
from store.messages.outbox.places import Refusal
from store.mongo.collections import CONVERSATIONS, MEMBERS, SESSIONS, members_of, session_row_id
from store.redis.cache import Call
from store.store import Store
from store.threads.reply_places import ReplyPlace
from tests.store.threads.sample_threads import ALICE, BOB, CAROL, DAVE, SampleThread, begin_thread

USERS = (ALICE, BOB, CAROL, DAVE)
LIMIT = 1_000
"""Followers at most."""

_step = st.tuples(
    st.sampled_from(["reply", "reply", "mention", "mention", "follow", "unfollow", "lock", "evict", "forget members"]),
    st.sampled_from(USERS),
    st.sampled_from(USERS),
)


@dataclass
class Person:
    """A user in the model."""

    follows: list[tuple[int, int]] = field(default_factory=list)
    """First and last seq of each time in which the user followed."""
    has_stopped: bool = False
    last_reply: int = 0
    is_known: bool = False
    read_n: int | None = None
    """None: there is no session."""

    @property
    def follows_now(self) -> bool:
        return bool(self.follows) and self.follows[-1][1] == NO_END


class Model:
    """The rules of the thread, written down without regard to cost."""

    def __init__(self) -> None:
        self.people = {user: Person() for user in USERS}
        self.seq = 0
        self.recipients: list[set[UserId]] = []
        self.is_locked = False

    @property
    def followers(self) -> set[UserId]:
        return {user for user, person in self.people.items() if person.follows_now}

    def begin(self, user: UserId, first: int) -> bool:
        person = self.people[user]
        if person.follows_now or person.has_stopped or len(self.followers) >= LIMIT:
            return False
        person.follows.append((first, NO_END))
        return True

    def reply(self, sender: UserId, mentioned: UserId | None) -> bool:
        """Place a reply. Returns false if the sender may not."""
        if self.is_locked and sender != ALICE:
            return False
        self.seq += 1
        own = self.people[sender]
        if not own.last_reply:
            self.begin(sender, self.seq)
        own.is_known, own.last_reply, own.read_n = True, self.seq, self.seq
        if mentioned is not None and mentioned != sender:
            person = self.people[mentioned]
            if not person.is_known and self.begin(mentioned, self.seq):
                person.is_known = True
                person.read_n = self.seq - 1
            elif person.read_n is None:
                # A mention of a user who does not follow begins a session too.
                person.read_n = self.seq - 1
        self.recipients.append(set(self.followers))
        return True

    def follow(self, user: UserId) -> None:
        person = self.people[user]
        person.follows.append((self.seq + 1, NO_END))
        person.has_stopped, person.is_known = False, True
        person.read_n = self.seq

    def unfollow(self, user: UserId) -> None:
        person = self.people[user]
        if person.follows_now:
            person.follows[-1] = (person.follows[-1][0], self.seq)
        person.has_stopped = person.is_known = True


async def _place(thread: SampleThread, sender: UserId, mentioned: UserId | None) -> ReplyPlace:
    return await thread.place(sender, [mentioned] if mentioned is not None and mentioned != sender else [])


async def _run(store: Store, steps: list[tuple[str, UserId, UserId]]) -> None:
    await store.deployment.worker_numbers.lease(store.ids, 0)
    thread, model = await begin_thread(store, USERS), Model()
    keys = store.keys.conversation(thread.id)
    for kind, user, other in steps:
        if kind in ("reply", "mention"):
            mentioned = other if kind == "mention" else None
            place = await _place(thread, user, mentioned)
            if not model.reply(user, mentioned):
                assert place is Refusal.LOCKED
                continue
            assert isinstance(place, ReservedMessage) and place.message.seq == model.seq
            assert set(await store.thread_recipients.find_followers(place)) == model.recipients[-1]
            await thread.commit(place)
        elif not model.seq:
            continue
        elif kind == "follow" and not model.people[user].follows_now and len(model.followers) < LIMIT:
            await thread.change(joining=(user,))
            model.follow(user)
        elif kind == "unfollow" and not (model.people[user].has_stopped and not model.people[user].follows_now):
            await thread.change(leaving=(user,))
            model.unfollow(user)
        elif kind == "lock":
            model.is_locked = not model.is_locked
            await thread.change(fields={"locked": model.is_locked})
        elif kind == "evict":
            await store.cache.one(Call("DEL", keys[:2]))
        elif kind == "forget members":
            await store.cache.one(Call("DEL", keys[1:2]))
    if model.seq:
        await _compare(thread, model)


async def _compare(thread: SampleThread, model: Model) -> None:
    """Fail unless Redis, a load, and MongoDB say what the model says."""
    store = thread.store
    replied = sorted(
        (user for user in USERS if model.people[user].last_reply), key=lambda u: -model.people[u].last_reply
    )
    (row,) = await store.mongo.find(CONVERSATIONS, {"_id": thread.id})
    assert (row["s"], row["n"], row["mc"], row["rp"]) == (model.seq, model.seq, len(model.followers), len(replied))
    assert bool(row.get("lk")) == model.is_locked
    for _ in range(2):
        head = await thread.head()
        assert head.thread is not None
        assert (head.reply_count, head.member_count) == (model.seq, len(model.followers))
        assert (head.thread.participant_count, head.thread.is_locked) == (len(replied), model.is_locked)
        assert head.thread.participants == tuple(replied)
        assert set(await thread.followers()) == model.followers
        await store.cache.one(Call("DEL", store.keys.conversation(thread.id)[:2]))
    rows = {row["_id"].split(" ")[1]: row for row in await store.mongo.find(MEMBERS, members_of(thread.id))}
    for user, person in model.people.items():
        stored = rows.get(user, {})
        assert (user in rows) == person.is_known
        assert [tuple(interval) for interval in stored.get("i", ())] == person.follows
        assert (stored.get("lr", 0), bool(stored.get("u"))) == (person.last_reply, person.has_stopped)
        session = await store.mongo.find(SESSIONS, {"_id": session_row_id(user, thread.id)})
        assert bool(session) == (person.read_n is not None)
        if session:
            assert (session[0]["rn"], bool(session[0].get("fw"))) == (person.read_n, person.follows_now)


@pytest.mark.parametrize("count", [6, pytest.param(150, marks=pytest.mark.long)])
async def test_places_and_followers_are_those_of_a_naive_model(store: Store, count: int) -> None:
    """Hypothesis runs its examples on a thread of its own, and they run on this loop."""
    loop = asyncio.get_running_loop()

    @settings(max_examples=count)
    @given(st.lists(_step, min_size=4, max_size=16))
    def examples(steps: list[tuple[str, UserId, UserId]]) -> None:
        asyncio.run_coroutine_threadsafe(_run(store, steps), loop).result(60)

    await asyncio.to_thread(examples)
