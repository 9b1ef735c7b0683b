"""Threads in channels: a change of rights hides them in cached states, and shows them again, before it is answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import THREADS, ConversationId, UserId, gateway_id, thread_id
from store.mongo.collections import CONVERSATIONS, SESSIONS, session_row_id
from store.mongo.writes import Update, Write
from store.redis.cache import Call
from store.sessions.channel_changes import ChannelChange
from store.sessions.fields import WAS_HIDDEN
from store.sessions.session import Session
from store.sessions.session_lists import UnreadTotals
from store.sessions.threads.thread_changes import FollowThread
from store.store import Store
from store.workspaces.changing import policy_changes as changes_module
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.membership_store import NewMember
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, Overwrite, Overwrites, PendingChange, Policy
from tests.store.policy_changes import fail
from tests.store.workspaces import BOB, CAROL, EVERYONE, GENERAL, GUIDE, W

LONG_AGO = 1_600_000_000_000
FOLLOWED, MENTIONED = thread_id(GENERAL, 1), thread_id(GENERAL, 2)
INBOX = gateway_id(THREADS)


@pytest.fixture
async def threads(store: Store, told: list[tuple[int, PendingChange]]) -> Store:
    """Return the store, with two users who follow a thread with an unread reply, and are mentioned in another one."""
    heads = [{"_id": name, "k": "T", "s": 1, "n": 1, "at": LONG_AGO, "w": LONG_AGO} for name in (FOLLOWED, MENTIONED)]
    await store.mongo.write([Write.inserts(CONVERSATIONS, heads)])
    mention = ChannelChange(MENTIONED, begins_at=(0, 0), mention_seq=1)
    rows = [
        Update({"_id": session_row_id(user, name)}, update, upsert=True)
        for user in (BOB, CAROL)
        for name, update in (
            (FOLLOWED, FollowThread(FOLLOWED, 0, 0, 1).row_update(LONG_AGO)),
            (MENTIONED, mention.mention_update(LONG_AGO + 1)),
        )
    ]
    await store.mongo.write([Write.updates(SESSIONS, rows)])
    for user in (BOB, CAROL):
        assert await shown(store, user) == (UnreadTotals(1, 1, 1), True, False)
    return store


async def shown(store: Store, user: UserId) -> tuple[UnreadTotals, bool, bool]:
    """Return a user's sums, whether the followed thread is valid, and whether the other one is hidden."""
    followed, mentioned = await sessions_of(store, user)
    return await store.sessions.read_totals(user), followed.valid, mentioned.hidden


async def sessions_of(store: Store, user: UserId) -> tuple[Session, Session]:
    followed, mentioned = (await store.sessions.find_many(user, [FOLLOWED, MENTIONED])).sessions
    return followed, mentioned


SEEN, HIDDEN = (UnreadTotals(1, 1, 1), True, False), (UnreadTotals(0, 0, 0), False, True)


async def close_general(policy: Policy) -> ProposedPolicyChange:
    """Let only administrators see #general."""
    overwrites = Overwrites({EVERYONE: Overwrite(deny=Permission.VIEW_CHANNEL)}, {})
    channel = replace(policy.channels[GENERAL], overwrites=overwrites)
    return ProposedPolicyChange(replace(policy, channels={**policy.channels, GENERAL: channel}))


async def open_general(policy: Policy) -> ProposedPolicyChange:
    channel = replace(policy.channels[GENERAL], overwrites=Overwrites({}, {}))
    return ProposedPolicyChange(replace(policy, channels={**policy.channels, GENERAL: channel}))


async def end_membership(policy: Policy) -> ProposedPolicyChange:
    change = MemberChange(MemberFacts(CAROL, 1, frozenset({GUIDE})), None)
    return ProposedPolicyChange(policy, members=(change,))


async def delete_general(policy: Policy) -> ProposedPolicyChange:
    rest = {id: channel for id, channel in policy.channels.items() if id != GENERAL}
    return ProposedPolicyChange(replace(policy, channels=rest))


async def delete_workspace(policy: Policy) -> ProposedPolicyChange:
    return ProposedPolicyChange(policy, deletes=True)


@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize(
    ("change", "hides_from_bob"),
    [(close_general, False), (end_membership, False), (delete_general, True), (delete_workspace, True)],
)
async def test_users_who_cannot_see_the_channel_any_more_cannot_see_its_threads(
    threads: Store, change: Any, hides_from_bob: bool, is_cached: bool
) -> None:
    store = threads
    if not is_cached:
        await forget(store, CAROL)
    position = (await store.sessions.find_many(CAROL, [FOLLOWED])).clock if is_cached else 0
    epoch = (await store.sessions.find_many(CAROL, [FOLLOWED])).epoch if is_cached else ""
    await store.policy_changes.change(W, change)
    assert await shown(store, CAROL) == HIDDEN
    assert await shown(store, BOB) == (HIDDEN if hides_from_bob else SEEN)
    (inbox,) = (await store.sessions.find_many(CAROL, [INBOX])).sessions
    assert not inbox.valid
    if is_cached:
        log = await store.sessions.read_log(CAROL, epoch, position, 10)
        assert log is not None and [
            FOLLOWED.encode() in entry and MENTIONED.encode() in entry for *_, entry in log
        ] == [True]
    await compare_with_a_load(store, CAROL)


async def test_a_thread_that_is_visible_again_has_the_replies_from_meanwhile(threads: Store) -> None:
    store = threads
    await store.policy_changes.change(W, close_general)
    assert await shown(store, CAROL) == HIDDEN
    await store.mongo.update_one(CONVERSATIONS, {"_id": FOLLOWED}, {"$set": {"s": 4, "n": 4}})
    await store.policy_changes.change(W, open_general)
    assert await shown(store, CAROL) == (UnreadTotals(4, 1, 1), True, False)


async def test_a_state_is_not_dropped_if_nothing_was_hidden(threads: Store) -> None:
    store = threads
    epoch = (await store.sessions.find_many(BOB, [FOLLOWED])).epoch
    await store.policy_changes.change(W, close_general)
    await store.policy_changes.change(W, open_general)
    assert (await store.sessions.find_many(BOB, [FOLLOWED])).epoch == epoch


async def test_a_user_who_joins_the_workspace_again_sees_the_threads_again(threads: Store) -> None:
    store = threads
    await store.policy_changes.change(W, end_membership)
    assert await shown(store, CAROL) == HIDDEN
    await store.memberships.add(W, [NewMember(CAROL, None)], 1, 100, entry=lambda _: "")
    await store.thread_access.show_to(W, [CAROL])
    assert await shown(store, CAROL) == SEEN


async def test_another_server_hides_the_threads_if_the_one_that_made_the_change_has_died(
    threads: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = threads
    with monkeypatch.context() as patch:
        patch.setattr(store.policy_changes.completions, "update_threads", fail)
        with pytest.raises(Unreachable):
            await store.policy_changes.change(W, close_general)
    assert await shown(store, CAROL) == SEEN
    monkeypatch.setattr(changes_module, "TAKEOVER_MS", -1)
    assert await store.policy_changes.complete_abandoned() == 1
    assert await shown(store, CAROL) == HIDDEN


async def test_devices_that_synchronise_later_get_hidden_threads_once(threads: Store) -> None:
    store = threads
    await forget(store, CAROL)
    before = (await store.sessions.find_many(BOB, [FOLLOWED])).clock
    await store.policy_changes.change(W, close_general)
    changed = await store.sessions.list_changed(CAROL, before - 1, 10, valid_until=0)
    assert {session.conversation for session in changed.sessions} >= {FOLLOWED, MENTIONED, INBOX}
    row = await store.mongo.find_one(SESSIONS, {"_id": session_row_id(CAROL, FOLLOWED)})
    assert row is not None and (row[WAS_HIDDEN], row["a"] > LONG_AGO) == (1, True)


async def forget(store: Store, user: UserId) -> None:
    """Drop a user's cached state."""
    names = ("meta", "sessions", "index", "list", "mutes", "log")
    await store.cache.run([Call("DEL", (store.keys.of_user(user, name),)) for name in names])


async def compare_with_a_load(store: Store, user: UserId) -> None:
    """Fail unless the cached state has the records that a load would give."""
    names: list[ConversationId] = [FOLLOWED, MENTIONED, INBOX]
    cached = {
        session.conversation: session.record for session in (await store.sessions.find_many(user, names)).sessions
    }
    loaded = await store.session_rows.read_without_ticks(user)
    for name in names:
        # A hidden thread keeps what it had of the head until it is loaded again.
        ignored = dict.fromkeys(("a", "w", "s", "n", "f"), 0)
        assert {**cached[name], **ignored} == {**loaded[name], **ignored}
