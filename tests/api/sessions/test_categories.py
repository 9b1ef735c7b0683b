"""Categories: assigning sessions to them, listing them, and their counts."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from bench.session_data import Owner, insert_owner, insert_people
from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import ASSIGN, SESSIONS
from tests.clock import ManualClock


async def create_conversations(api: Api, count: int) -> tuple[str, list[str], list[str]]:
    """Return alice, users who each sent her one message in this order, and their conversations."""
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(count)))
    for other in others:
        await api.send(other, alice)
    return alice, others, [private_id(alice, other) for other in others]


def counts_by_category(categories: list[Json]) -> dict[str, tuple[int, int]]:
    return {category["categoryId"]: (category["sessionCount"], category["unreadCount"]) for category in categories}


async def test_assigned_sessions_are_returned_once_in_the_order_given(api: Api) -> None:
    alice, _, (a, b, c) = await create_conversations(api, 3)
    answer = await api.assign(alice, "work", c, a, c, b, a)
    assert [session["conversation"]["id"] for session in answer] == [c, a, b]
    assert {session["categoryId"] for session in answer} == {"work"}
    assert answer == [await api.session(alice, conversation) for conversation in (c, a, b)]
    assert len({session["activeTs"] for session in answer}) == 3


async def test_a_category_is_listed_in_the_order_of_the_main_list(api: Api) -> None:
    alice, (a, b, c, d, e), conversations = await create_conversations(api, 5)
    await api.assign(alice, "work", *conversations[:4])
    await api.assign(alice, "home", conversations[4])
    await api.pin(alice, conversations[1])
    await api.send(a, alice)
    expected = [b, a, d, c]
    for page in (1, 3, 100):
        assert await api.titles(alice, page, category="work") == expected
    assert await api.titles(alice, category="home") == [e]
    assert await api.titles(alice) == [b, a, e, d, c]
    listed = (await api.data(alice, SESSIONS, first=4, category="work"))["sessions"]
    assert listed["pageInfo"]["hasNextPage"] is False
    assert listed["totalUnread"] == await api.total_unread(alice) == 6


async def test_a_session_moved_or_removed_leaves_its_category(api: Api) -> None:
    alice, (a, b), conversations = await create_conversations(api, 2)
    await api.assign(alice, "work", *conversations)
    await api.assign(alice, "home", conversations[0])
    assert (await api.titles(alice, category="work"), await api.titles(alice, category="home")) == ([b], [a])
    (session,) = await api.assign(alice, None, conversations[0])
    assert session["categoryId"] is None
    assert await api.titles(alice, category="home") == []
    assert counts_by_category(await api.categories(alice)) == {"work": (1, 1)}


async def test_a_category_sums_up_its_sessions(api: Api) -> None:
    alice, (a, b, c), conversations = await create_conversations(api, 3)
    assert await api.categories(alice) == []
    await api.assign(alice, "work", conversations[0], conversations[1])
    await api.assign(alice, "home", conversations[2])
    last = (await api.send(a, alice))["message"]["id"]
    work, home = await api.categories(alice)
    first = await api.own_session(alice, conversations[0])
    assert work == {
        "categoryId": "work",
        "sessionCount": 2,
        "unreadCount": 3,
        "writeTs": first["writeTs"],
        "lastMessage": {"id": last},
    }
    assert (home["categoryId"], home["sessionCount"], home["unreadCount"]) == ("home", 1, 1)
    await api.send(c, alice)
    assert [category["categoryId"] for category in await api.categories(alice)] == ["home", "work"]
    assert await api.categories(b) == []


async def test_muted_sessions_are_counted_but_their_messages_are_not(api: Api) -> None:
    alice, _, (a, b, c) = await create_conversations(api, 3)
    await api.assign(alice, "work", a, b, c)
    await api.mute(alice, a)
    assert counts_by_category(await api.categories(alice)) == {"work": (3, 2)}
    await api.mark_read(alice, b)
    assert counts_by_category(await api.categories(alice)) == {"work": (3, 1)}
    await api.unmute(alice, a)
    assert counts_by_category(await api.categories(alice)) == {"work": (3, 2)}


async def test_deleted_sessions_are_in_no_category_until_revived(api: Api) -> None:
    alice, (first, second), (a, b) = await create_conversations(api, 2)
    await api.assign(alice, "work", a, b)
    await api.delete(alice, b)
    (work,) = await api.categories(alice)
    assert (work["sessionCount"], work["unreadCount"]) == (1, 1)
    assert work["writeTs"] == (await api.own_session(alice, a))["writeTs"]
    assert await api.titles(alice, category="work") == [first]
    await api.delete(alice, a)
    assert await api.categories(alice) == []
    await api.send(second, alice)
    assert counts_by_category(await api.categories(alice)) == {"work": (1, 1)}
    assert await api.titles(alice, category="work") == [second]


async def test_the_end_of_a_mute_changes_the_unread_count_of_the_category(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ends", clock) as api:
        alice, _, (a, b) = await create_conversations(api, 2)
        await api.assign(alice, "work", a, b)
        await api.mute(alice, a, clock.ms + 5_000)
        assert counts_by_category(await api.categories(alice)) == {"work": (2, 1)}
        clock.ms += 5_000
        assert counts_by_category(await api.categories(alice)) == {"work": (2, 2)}


async def test_a_category_of_an_empty_group_has_no_last_message(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.assign(bob, "groups", group)
    (category,) = await api.categories(bob)
    session = await api.own_session(bob, group)
    assert (category["sessionCount"], category["lastMessage"], category["writeTs"]) == (1, None, session["writeTs"])


async def test_assigning_changes_neither_order_nor_totals_nor_other_users(api: Api) -> None:
    alice, (bob, carol), conversations = await create_conversations(api, 2)
    before = await api.own_session(alice, conversations[0])
    bobs = await api.session(bob, conversations[0])
    (after,) = await api.assign(alice, "work", conversations[0])
    assert {name for name in before if before[name] != after[name]} == {"categoryId", "activeTs"}
    assert await api.titles(alice) == [carol, bob]
    assert await api.total_unread(alice) == 2
    assert await api.session(bob, conversations[0]) == bobs
    assert await api.sessions(bob, category="work") == []


@pytest.mark.parametrize("name", ["x", "x" * 128, "é🙂" * 64, " padded ", "a_b~c/d", "5", "null"], ids=ascii)
async def test_names_of_1_to_128_characters_are_kept_unchanged(api: Api, name: str) -> None:
    alice, (bob,), (conversation,) = await create_conversations(api, 1)
    (session,) = await api.assign(alice, name, conversation)
    assert session["categoryId"] == name
    assert counts_by_category(await api.categories(alice)) == {name: (1, 1)}
    assert await api.titles(alice, category=name) == [bob]
    for similar_name in {name[:-1] + "!", name.swapcase(), name.strip()} - {name}:
        assert await api.titles(alice, category=similar_name) == []


async def test_invalid_names_are_refused(api: Api) -> None:
    alice, _, (conversation,) = await create_conversations(api, 1)
    stored = await api.stored_hashes()
    refusal = Refusal("INVALID_INPUT", "categoryId")
    for name in ("", " ", "\u3000\t", "x" * 129, "🙂" * 129, "a\x00", "a\nb", "\x7f", "\ud800"):
        for ids in ([conversation], ["nonsense"], []):
            assert await api.expect_refusal(alice, ASSIGN, ids=ids, category=name) == refusal, ascii(name)
        assert await api.expect_refusal(alice, SESSIONS, category=name) == refusal, ascii(name)
    assert await api.stored_hashes() == stored


async def test_an_unknown_category_is_empty(api: Api) -> None:
    alice, _, _ = await create_conversations(api, 1)
    listed = (await api.data(alice, SESSIONS, category="nothing"))["sessions"]
    assert (listed["edges"], listed["pageInfo"]["hasNextPage"], listed["totalUnread"]) == ([], False, 1)


async def test_assigning_no_sessions_changes_nothing(api: Api) -> None:
    alice, _, _ = await create_conversations(api, 1)
    device = await api.listen(alice, LIVE_SESSIONS)
    stored = await api.stored_hashes()
    assert await api.assign(alice, "work") == []
    assert await api.stored_hashes() == stored
    await device.expect_no_event(0.02)


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_one_foreign_session_refuses_the_whole_call(api: Api, place: int) -> None:
    alice, (bob, carol), conversations = await create_conversations(api, 2)
    await api.send(bob, carol)
    await api.set_unread(alice, conversations[0])
    ids = {
        "foreign": private_id(bob, carol),
        "unknown": "g_1",
        "nonsense": "nonsense",
        "empty": "",
        "no messages": private_id(alice, "nobody"),
        "lone surrogate": "\ud800",
    }
    device = await api.listen(alice, LIVE_SESSIONS)
    before, stored = await api.sessions(alice), await api.stored_hashes()
    for name, invalid in ids.items():
        given = [*conversations[:place], invalid, *conversations[place:]]
        refusal = await api.expect_refusal(alice, ASSIGN, ids=given, category="work")
        assert refusal == Refusal("NOT_FOUND", "conversationIds"), name
    assert await api.stored_hashes() == stored
    assert await api.sessions(alice) == before
    await device.expect_no_event(0.02)


async def test_one_event_carries_exactly_the_changed_sessions(api: Api, other_api: Api) -> None:
    alice, _, (a, b, c, d) = await create_conversations(api, 4)
    await api.assign(alice, "work", b)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    answer = await api.assign(alice, "work", d, b, a)
    for device in devices:
        event = await device.next()
        assert (event["reason"], event["hasMore"], event["totalUnread"]) == ("CATEGORY", False, 4)
        moved = {session["conversation"]["id"]: session for session in event["sessions"]}
        assert moved == {d: answer[0], a: answer[2]}
        await device.expect_no_event(0.02)
        after = (await api.data(alice, SYNC, since=event["cursor"]))["syncSessions"]
        assert (after["sessions"], after["reset"]) == ([], False)
    delta = (await api.data(alice, SYNC, since=cursor))["syncSessions"]
    assert {session["conversation"]["id"] for session in delta["sessions"]} == {d, a}
    assert (await api.own_session(alice, c))["categoryId"] is None


async def test_a_missed_assignment_is_caught_up_in_one_event(api: Api) -> None:
    alice, _, conversations = await create_conversations(api, 3)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    answer = await api.assign(alice, "work", *conversations)
    missed = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
    event = await missed.next()
    assert (event["reason"], event["hasMore"], event["reset"]) == ("CATCH_UP", False, False)
    assert event["sessions"] == sorted(answer, key=lambda session: session["activeTs"])


async def test_concurrent_assignments_are_never_mixed(api: Api, other_api: Api) -> None:
    alice, _, conversations = await create_conversations(api, 4)
    names = [f"category {number}" for number in range(8)]
    await gather_all(
        *((api, other_api)[turn % 2].assign(alice, name, *conversations) for turn, name in enumerate(names))
    )
    (category,) = await api.categories(alice)
    assert category["categoryId"] in names
    assert category["sessionCount"] == 4


@pytest.fixture(scope="module")
def owner_of_thousand(process: Api, deployments: Deployments) -> Owner:
    """A user with 1,000 conversations, inserted directly: creating them through the API takes 15 seconds."""
    database = deployments.mongo[deployments.settings("main").mongo_database]
    owner = insert_owner(database, f"alice-{secrets.token_hex(4)}", 1000)
    insert_people(database, owner.peers)
    return owner


SHORT_ASSIGN = """mutation ($ids: [ID!]!, $category: ID) { assignCategory(conversationIds: $ids, categoryId:
        $category) {
    id categoryId activeTs } }"""
SHORT_LIVE_SESSIONS = (
    """subscription { syncSession { reason hasMore reset totalUnread cursor sessions { id categoryId } } }"""
)


async def test_assigning_a_thousand_sessions_sends_one_event(api: Api, owner_of_thousand: Owner) -> None:
    alice, conversations = owner_of_thousand.user, owner_of_thousand.conversations
    device = await api.listen(alice, SHORT_LIVE_SESSIONS)
    answer = (await api.data(alice, SHORT_ASSIGN, ids=conversations, category="all"))["assignCategory"]
    assert [session["id"] for session in answer] == [f"s_{alice}_{conversation}" for conversation in conversations]
    assert {session["categoryId"] for session in answer} == {"all"}
    assert len({session["activeTs"] for session in answer}) == 1000
    event = await device.next()
    assert (event["reason"], event["hasMore"], event["reset"]) == ("CATEGORY", False, False)
    assert sorted(s["id"] for s in event["sessions"]) == sorted(s["id"] for s in answer)
    await device.expect_no_event(0.1)
    assert counts_by_category(await api.categories(alice)) == {"all": (1000, len(owner_of_thousand.unread))}
    assert await api.data(alice, SHORT_ASSIGN, ids=conversations, category="all") == {"assignCategory": answer}
    await device.expect_no_event(0.1)


async def test_more_than_a_thousand_ids_are_refused_even_if_some_repeat(api: Api, owner_of_thousand: Owner) -> None:
    alice, conversations = owner_of_thousand.user, owner_of_thousand.conversations
    # Her first request creates the user.
    await api.sessions(alice)
    stored = await api.stored_hashes()
    for ids in ([*conversations, conversations[0]], [conversations[0]] * 1001, ["nonsense"] * 1001):
        refusal = await api.expect_refusal(alice, SHORT_ASSIGN, ids=ids, category="more")
        assert refusal == Refusal("INVALID_INPUT", "conversationIds")
    assert await api.stored_hashes() == stored
    refusal = await api.expect_refusal(alice, SHORT_ASSIGN, ids=[*conversations[:-1], "nonsense"], category="more")
    assert refusal == Refusal("NOT_FOUND", "conversationIds")
    assert await api.stored_hashes() == stored


async def test_categories_survive_the_loss_of_the_cache(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    alice, others, conversations = await create_conversations(api, 4)
    await api.assign(alice, "work", *conversations[:3])
    await asyncio.sleep(0.002)
    await api.assign(alice, "home", conversations[3], conversations[0])
    await api.assign(alice, None, conversations[1])
    await api.mute(alice, conversations[0])
    await api.wait_until_idle()
    before = await api.categories(alice)
    assert counts_by_category(before) == {"work": (1, 1), "home": (2, 1)}
    deployments.flush_redis("lost")
    assert await api.categories(alice) == before
    assert await api.titles(alice, category="home") == [others[3], others[0]]
    assert await api.titles(alice, 1, category="work") == [others[2]]
