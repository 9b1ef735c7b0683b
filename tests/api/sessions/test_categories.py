"""Folders: putting sessions into them, listing them, and what each adds up to."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from bench.session_data import Owner, insert_owner, insert_people
from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import ASSIGN, SESSIONS
from tests.clock import ManualClock


async def talks(api: Api, count: int) -> tuple[str, list[str], list[str]]:
    """Somebody to whom others wrote one message each, in order. Answers them, the others, and where."""
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(count)))
    for other in others:
        await api.send(other, alice)
    return alice, others, [private_id(alice, other) for other in others]


def sums(categories: list[Json]) -> dict[str, tuple[int, int]]:
    return {found["categoryId"]: (found["sessionCount"], found["unreadCount"]) for found in categories}


async def test_sessions_are_answered_in_the_order_of_first_mention_each_once(api: Api) -> None:
    alice, _, (a, b, c) = await talks(api, 3)
    answer = await api.assign(alice, "work", c, a, c, b, a)
    assert [session["conversation"]["id"] for session in answer] == [c, a, b]
    assert {session["categoryId"] for session in answer} == {"work"}
    assert answer == [await api.session(alice, conversation) for conversation in (c, a, b)]
    assert len({session["activeTs"] for session in answer}) == 3


async def test_a_folder_lists_what_is_in_it_as_the_main_list_does(api: Api) -> None:
    alice, (a, b, c, d, e), conversations = await talks(api, 5)
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


async def test_what_is_filed_elsewhere_or_taken_out_leaves_its_folder(api: Api) -> None:
    alice, (a, b), conversations = await talks(api, 2)
    await api.assign(alice, "work", *conversations)
    await api.assign(alice, "home", conversations[0])
    assert (await api.titles(alice, category="work"), await api.titles(alice, category="home")) == ([b], [a])
    (session,) = await api.assign(alice, None, conversations[0])
    assert session["categoryId"] is None
    assert await api.titles(alice, category="home") == []
    assert sums(await api.categories(alice)) == {"work": (1, 1)}


async def test_a_folder_adds_up_what_is_in_it(api: Api) -> None:
    alice, (a, b, c), conversations = await talks(api, 3)
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


async def test_muted_ones_count_as_sessions_and_not_as_unread(api: Api) -> None:
    alice, _, (a, b, c) = await talks(api, 3)
    await api.assign(alice, "work", a, b, c)
    await api.mute(alice, a)
    assert sums(await api.categories(alice)) == {"work": (3, 2)}
    await api.mark_read(alice, b)
    assert sums(await api.categories(alice)) == {"work": (3, 1)}
    await api.unmute(alice, a)
    assert sums(await api.categories(alice)) == {"work": (3, 2)}


async def test_deleted_ones_are_in_no_folder_until_they_live_again(api: Api) -> None:
    alice, (first, second), (a, b) = await talks(api, 2)
    await api.assign(alice, "work", a, b)
    await api.delete(alice, b)
    (work,) = await api.categories(alice)
    assert (work["sessionCount"], work["unreadCount"]) == (1, 1)
    assert work["writeTs"] == (await api.own_session(alice, a))["writeTs"]
    assert await api.titles(alice, category="work") == [first]
    await api.delete(alice, a)
    assert await api.categories(alice) == []
    await api.send(second, alice)
    assert sums(await api.categories(alice)) == {"work": (1, 1)}
    assert await api.titles(alice, category="work") == [second]


async def test_the_end_of_a_mute_counts_in_the_folder(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ends", clock) as api:
        alice, _, (a, b) = await talks(api, 2)
        await api.assign(alice, "work", a, b)
        await api.mute(alice, a, clock.ms + 5_000)
        assert sums(await api.categories(alice)) == {"work": (2, 1)}
        clock.ms += 5_000
        assert sums(await api.categories(alice)) == {"work": (2, 2)}


async def test_an_empty_group_in_a_folder_has_no_last_message(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.assign(bob, "groups", group)
    (found,) = await api.categories(bob)
    session = await api.own_session(bob, group)
    assert (found["sessionCount"], found["lastMessage"], found["writeTs"]) == (1, None, session["writeTs"])


async def test_filing_leaves_order_total_and_everybody_else_alone(api: Api) -> None:
    alice, (bob, carol), conversations = await talks(api, 2)
    before = await api.own_session(alice, conversations[0])
    bobs = await api.session(bob, conversations[0])
    (after,) = await api.assign(alice, "work", conversations[0])
    assert {name for name in before if before[name] != after[name]} == {"categoryId", "activeTs"}
    assert await api.titles(alice) == [carol, bob]
    assert await api.total_unread(alice) == 2
    assert await api.session(bob, conversations[0]) == bobs
    assert await api.sessions(bob, category="work") == []


# --- what may be said


@pytest.mark.parametrize("name", ["x", "x" * 128, "é🙂" * 64, " padded ", "a_b~c/d", "5", "null"], ids=ascii)
async def test_every_name_of_1_to_128_characters_is_kept_as_it_is(api: Api, name: str) -> None:
    alice, (bob,), (talk,) = await talks(api, 1)
    (session,) = await api.assign(alice, name, talk)
    assert session["categoryId"] == name
    assert sums(await api.categories(alice)) == {name: (1, 1)}
    assert await api.titles(alice, category=name) == [bob]
    for near in {name[:-1] + "!", name.swapcase(), name.strip()} - {name}:
        assert await api.titles(alice, category=near) == []


@pytest.mark.parametrize(
    "name", ["", " ", "\u3000\t", "x" * 129, "🙂" * 129, "a\x00", "a\nb", "\x7f", "\ud800"], ids=ascii
)
async def test_other_names_are_refused(api: Api, name: str) -> None:
    alice, _, (talk,) = await talks(api, 1)
    stored = await api.stored_documents()
    for ids in ([talk], ["nonsense"], []):
        assert await api.expect_refusal(alice, ASSIGN, ids=ids, category=name) == Refusal("INVALID_INPUT", "categoryId")
    assert await api.expect_refusal(alice, SESSIONS, category=name) == Refusal("INVALID_INPUT", "categoryId")
    assert await api.stored_documents() == stored


async def test_a_folder_that_does_not_exist_is_empty(api: Api) -> None:
    alice, _, _ = await talks(api, 1)
    listed = (await api.data(alice, SESSIONS, category="nothing"))["sessions"]
    assert (listed["edges"], listed["pageInfo"]["hasNextPage"], listed["totalUnread"]) == ([], False, 1)


async def test_no_sessions_are_no_change(api: Api) -> None:
    alice, _, _ = await talks(api, 1)
    device = await api.listen(alice, LIVE_SESSIONS)
    stored = await api.stored_documents()
    assert await api.assign(alice, "work") == []
    assert await api.stored_documents() == stored
    await device.expect_no_event(0.02)


@pytest.mark.parametrize("wrong", ["foreign", "unknown", "nonsense", "empty", "unwritten", "half a character"])
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_one_that_is_not_ones_own_and_nothing_changes(api: Api, wrong: str, place: int) -> None:
    alice, (bob, carol), conversations = await talks(api, 2)
    await api.send(bob, carol)
    await api.set_unread(alice, conversations[0])
    ids = {
        "foreign": private_id(bob, carol),
        "unknown": "g_1",
        "nonsense": "nonsense",
        "empty": "",
        "unwritten": private_id(alice, "nobody"),
        "half a character": "\ud800",
    }
    device = await api.listen(alice, LIVE_SESSIONS)
    before, stored = await api.sessions(alice), await api.stored_documents()
    named = [*conversations[:place], ids[wrong], *conversations[place:]]
    assert await api.expect_refusal(alice, ASSIGN, ids=named, category="work") == Refusal(
        "NOT_FOUND", "conversationIds"
    )
    assert await api.stored_documents() == stored
    assert await api.sessions(alice) == before
    await device.expect_no_event(0.02)


# --- one event


async def test_one_event_carries_what_changed_and_only_that(api: Api, other_api: Api) -> None:
    alice, _, (a, b, c, d) = await talks(api, 4)
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


async def test_a_missed_call_is_caught_up_whole(api: Api) -> None:
    alice, _, conversations = await talks(api, 3)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    answer = await api.assign(alice, "work", *conversations)
    missed = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
    part = await missed.next()
    assert (part["reason"], part["hasMore"], part["reset"]) == ("CATCH_UP", False, False)
    assert part["sessions"] == sorted(answer, key=lambda session: session["activeTs"])


async def test_calls_at_once_leave_the_last_of_them_whole(api: Api, other_api: Api) -> None:
    alice, _, conversations = await talks(api, 4)
    names = [f"folder {number}" for number in range(8)]
    await gather_all(
        *((api, other_api)[turn % 2].assign(alice, name, *conversations) for turn, name in enumerate(names))
    )
    (found,) = await api.categories(alice)
    assert found["categoryId"] in names
    assert found["sessionCount"] == 4


# --- many


@pytest.fixture(scope="module")
def thousand(process: Api, deployments: Deployments) -> Owner:
    """Somebody with 1,000 conversations. Inserted: through the API they would take a quarter of a minute."""
    database = deployments.mongo[deployments.settings("main").mongo_database]
    owner = insert_owner(database, f"alice-{secrets.token_hex(4)}", 1000)
    insert_people(database, owner.peers)
    return owner


LEAN = """mutation ($ids: [ID!]!, $category: ID) { assignCategory(conversationIds: $ids, categoryId: $category) {
    id categoryId activeTs } }"""
LEAN_LIVE = """subscription { syncSession { reason hasMore reset totalUnread cursor sessions { id categoryId } } }"""


async def test_a_thousand_at_once_are_one_event(api: Api, thousand: Owner) -> None:
    alice, conversations = thousand.user, thousand.conversations
    device = await api.listen(alice, LEAN_LIVE)
    answer = (await api.data(alice, LEAN, ids=conversations, category="all"))["assignCategory"]
    assert [session["id"] for session in answer] == [f"s_{alice}_{conversation}" for conversation in conversations]
    assert {session["categoryId"] for session in answer} == {"all"}
    assert len({session["activeTs"] for session in answer}) == 1000
    event = await device.next()
    assert (event["reason"], event["hasMore"], event["reset"]) == ("CATEGORY", False, False)
    assert sorted(s["id"] for s in event["sessions"]) == sorted(s["id"] for s in answer)
    await device.expect_no_event(0.1)
    assert sums(await api.categories(alice)) == {"all": (1000, len(thousand.unread))}
    assert await api.data(alice, LEAN, ids=conversations, category="all") == {"assignCategory": answer}
    await device.expect_no_event(0.1)


async def test_more_than_a_thousand_are_refused_though_some_are_the_same(api: Api, thousand: Owner) -> None:
    alice, conversations = thousand.user, thousand.conversations
    stored = await api.stored_documents()
    for ids in ([*conversations, conversations[0]], [conversations[0]] * 1001, ["nonsense"] * 1001):
        refusal = await api.expect_refusal(alice, LEAN, ids=ids, category="more")
        assert refusal == Refusal("INVALID_INPUT", "conversationIds")
    assert await api.stored_documents() == stored
    refusal = await api.expect_refusal(alice, LEAN, ids=[*conversations[:-1], "nonsense"], category="more")
    assert refusal == Refusal("NOT_FOUND", "conversationIds")
    assert await api.stored_documents() == stored


async def test_folders_are_the_same_after_the_cache_was_lost(open_api: OpenApi, deployments: Deployments) -> None:
    async with open_api("lost") as api:
        alice, others, conversations = await talks(api, 4)
        await api.assign(alice, "work", *conversations[:3])
        await asyncio.sleep(0.002)
        await api.assign(alice, "home", conversations[3], conversations[0])
        await api.assign(alice, None, conversations[1])
        await api.mute(alice, conversations[0])
        await api.wait_until_idle()
        before = await api.categories(alice)
        assert sums(before) == {"work": (1, 1), "home": (2, 1)}
        deployments.flush_redis("lost")
        assert await api.categories(alice) == before
        assert await api.titles(alice, category="home") == [others[3], others[0]]
        assert await api.titles(alice, 1, category="work") == [others[2]]
