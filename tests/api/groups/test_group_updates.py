"""A group's name, picture and history setting; what the system says of groups; how many fit in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.api.client import CREATE_GROUP, INVITE, LIVE_SESSIONS, Api, Json, Refusal, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.group_calls import UPDATE_GROUP
from tests.api.state_snapshot import take_snapshot

PICTURE = "https://example.org/a.png"
GOOD_NAMES = [
    "x",
    "x" * 100,
    "🙂" * 100,
    "👩‍👩‍👧‍👦 family",
    "مرحبا بالجميع",
    "\u202eright to left",
    " x ",
    "<b>&amp;",
    "e\u0301",
]
BAD_NAMES = ["", " ", "\u3000\u2003", "x" * 101, "🙂" * 101, "a\x00", "a\nb", "a\x1b[0m", "a\x85", "a\x7f", "\ud800"]


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    """Groups of at most five here, so that filling one up is quick."""
    async with open_api("main", max_group_members=5) as api:
        yield api


@pytest.fixture(scope="module")
async def other_process(process: Api, open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("main", max_group_members=5) as api:
        yield api


async def three(api: Api, **more: Any) -> tuple[str, str, str, str]:
    """Alice's group with two members."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    return alice, bob, carol, await api.create_group(alice, bob, carol, **more)


# --- names


@pytest.mark.parametrize("name", GOOD_NAMES, ids=ascii)
async def test_a_new_name_is_kept_as_it_is_and_shown_everywhere(
    api: Api, other_api: Api, deployments: Deployments, name: str
) -> None:
    alice, bob, carol, group = await three(api)
    shown = await api.update_group(alice, group, name=name)
    assert (shown["name"], shown["title"]) == (name, name)
    assert shown == await api.group(alice, group)
    for lost in (False, True):
        if lost:
            await api.wait_until_idle()
            deployments.flush_redis("main")
        for process in (api, other_api):
            for user in (alice, bob, carol):
                assert (await process.own_group(user, group))["name"] == name
                assert await process.titles(user) == [name]


async def test_what_is_no_name_is_refused_and_nothing_happens(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    watching = await take_snapshot(api, group, alice, bob, carol)
    for name in BAD_NAMES:
        refusal = await api.expect_refusal(alice, UPDATE_GROUP, id=group, input={"name": name, "avatarUrl": PICTURE})
        assert refusal == Refusal("INVALID_INPUT", "name"), ascii(name)
    await watching.assert_unchanged()


async def test_a_group_takes_the_names_that_it_could_have_begun_with(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    for name in (*GOOD_NAMES, *BAD_NAMES, "\u200b", "\u200b\u2060\ufeff", "\u00ad", "\u2800"):
        made = await api.run(alice, CREATE_GROUP, input={"name": name, "memberIds": [bob, carol]})
        renamed = await api.run(alice, UPDATE_GROUP, id=group, input={"name": name})
        assert ("errors" in renamed) is ("errors" in made), ascii(name)


async def test_what_is_no_picture_is_refused_and_nothing_happens(api: Api) -> None:
    alice, bob, carol, group = await three(api, avatarUrl=PICTURE)
    watching = await take_snapshot(api, group, alice, bob, carol)
    for url in ("", "x", "javascript:x", "ftp://x/", "https://x/\x00", "https://x/" + "y" * 2048):
        refusal = await api.expect_refusal(alice, UPDATE_GROUP, id=group, input={"name": "Other", "avatarUrl": url})
        assert refusal == Refusal("INVALID_INPUT", "avatarUrl"), url[:20]
    await watching.assert_unchanged()


@pytest.mark.parametrize(
    "fields", [{"historyVisibility": "ALL"}, {"nonsense": 1}, {"name": 5}, {"name": ["x"]}], ids=str
)
async def test_what_the_schema_does_not_know_is_refused(api: Api, fields: Json) -> None:
    alice, _, _, group = await three(api)
    stored = await api.stored_documents()
    assert (await api.expect_refusal(alice, UPDATE_GROUP, id=group, input=fields)).code == "INVALID_INPUT"
    assert await api.stored_documents() == stored


# --- what is given, and what is not


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({"name": "New"}, {"name": "New"}),
        ({"avatarUrl": "https://example.org/b.png"}, {"avatarUrl": "https://example.org/b.png"}),
        ({"avatarUrl": None}, {"avatarUrl": None}),
        ({"historyVisibility": "FULL"}, {"historyVisibility": "FULL"}),
        ({"name": None, "avatarUrl": None, "historyVisibility": None}, {"avatarUrl": None}),
        ({"name": "New", "historyVisibility": None}, {"name": "New"}),
        (
            {"name": "New", "avatarUrl": None, "historyVisibility": "FULL"},
            {"name": "New", "avatarUrl": None, "historyVisibility": "FULL"},
        ),
    ],
    ids=str,
)
async def test_only_what_is_given_changes(
    api: Api, other_api: Api, deployments: Deployments, fields: Json, changed: Json
) -> None:
    alice, bob, carol, group = await three(api, name="Old", avatarUrl=PICTURE)
    await api.update_group(alice, group, **fields)
    expected = {"name": "Old", "avatarUrl": PICTURE, "historyVisibility": "SINCE_JOIN"} | changed
    for lost in (False, True):
        if lost:
            await api.wait_until_idle()
            deployments.flush_redis("main")
        for process, user in ((api, alice), (other_api, bob), (api, carol)):
            shown = await process.own_group(user, group)
            assert {name: shown[name] for name in expected} == expected
            assert (shown["memberCount"], shown["owner"]) == (3, {"id": alice})
    # Only a new name is told.
    assert len(await api.history(bob, group)) == ("name" in changed)


async def test_what_is_so_already_changes_nothing(api: Api) -> None:
    alice, bob, carol, group = await three(api, name="Old", avatarUrl=PICTURE, historyVisibility="FULL")
    await api.send(bob, group)
    watching = await take_snapshot(api, group, alice, bob, carol)
    for fields in (
        {},
        {"name": None},
        {"name": "Old"},
        {"avatarUrl": PICTURE},
        {"historyVisibility": "FULL"},
        {"historyVisibility": None},
        {"name": "Old", "avatarUrl": PICTURE, "historyVisibility": "FULL"},
    ):
        assert await api.update_group(alice, group, **fields) == await api.group(alice, group), fields
    await watching.assert_unchanged()


async def test_a_picture_that_is_not_there_can_be_removed_to_no_effect(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    watching = await take_snapshot(api, group, alice, bob, carol)
    assert (await api.update_group(alice, group, avatarUrl=None))["avatarUrl"] is None
    await watching.assert_unchanged()


@pytest.mark.parametrize("fields", [{"avatarUrl": PICTURE}, {"historyVisibility": "FULL"}], ids=str)
async def test_a_picture_or_a_setting_is_no_change_of_anybody_s_session(api: Api, fields: Json) -> None:
    alice, bob, carol, group = await three(api)
    devices = [await api.listen(user, *of) for user in (alice, bob, carol) for of in ((), (LIVE_SESSIONS,))]
    sessions = [await api.own_session(user, group) for user in (alice, bob, carol)]
    await api.update_group(alice, group, **fields)
    assert [await api.own_session(user, group) for user in (alice, bob, carol)] == sessions
    for device in devices:
        await device.expect_no_event(0.02)


# --- what the system says

Act = Callable[[Api, str, dict[str, str]], Awaitable[object]]

TOLD: dict[str, tuple[Act, str, list[str]]] = {
    "joining": (
        lambda api, group, who: api.invite(who["bob"], group, who["dave"], who["erin"]),
        "bob",
        ["dave", "erin"],
    ),
    "leaving": (lambda api, group, who: api.leave(who["bob"], group), "bob", ["bob"]),
    "removal": (lambda api, group, who: api.remove(who["alice"], group, who["bob"]), "alice", ["bob"]),
    "a transfer": (lambda api, group, who: api.transfer(who["alice"], group, who["carol"]), "alice", ["carol"]),
    "a name": (lambda api, group, who: api.update_group(who["alice"], group, name="New"), "alice", []),
}
UNTOLD: dict[str, Act] = {
    "a role": lambda api, group, who: api.set_role(who["alice"], group, who["carol"], "ADMIN"),
    "a picture": lambda api, group, who: api.update_group(who["alice"], group, avatarUrl=PICTURE),
    "a setting": lambda api, group, who: api.update_group(who["alice"], group, historyVisibility="FULL"),
    "inviting members": lambda api, group, who: api.invite(who["bob"], group, who["carol"]),
}


@pytest.mark.parametrize(("act", "sender", "mentions"), TOLD.values(), ids=TOLD.keys())
@pytest.mark.parametrize("lost", [False, True], ids=["about", "lost"])
async def test_the_system_tells_of_it_in_one_message_that_counts_for_nobody(
    api: Api, deployments: Deployments, act: Act, sender: str, mentions: list[str], lost: bool
) -> None:
    names = ("alice", "bob", "carol", "dave", "erin", "frank")
    who = dict(zip(names, await api.create_users(*names), strict=True))
    group = await api.create_group(*(who[name] for name in ("alice", "bob", "carol")))
    await api.send(who["bob"], group, "hello", mentions=[who["alice"], who["carol"]])
    await api.send(who["alice"], group, "and you", mentionAll=True)
    await api.set_unread(who["carol"], group)
    await api.send(who["frank"], who["carol"], "newer than the group")
    await api.wait_until_idle()
    if lost:
        deployments.flush_redis("main")
    stay = [name for name in ("alice", "bob", "carol") if [name] != mentions or name == "carol"]
    before = {name: await api.own_session(who[name], group) for name in stay}
    totals = {name: await api.total_unread(who[name]) for name in stay}
    live = {name: await api.listen(who[name]) for name in stay}
    order = await api.titles(who["carol"])
    await asyncio.sleep(0.002)
    await act(api, group, who)
    history = await api.history(who["alice"], group)
    assert len(history) == 3
    told = history[-1]
    assert (told["contentType"], told["state"], told["seq"]) == ("SYSTEM", "NORMAL", 3)
    assert (told["sender"]["id"], told["mentionsAll"], told["replyTo"]) == (who[sender], False, None)
    assert {user["id"] for user in told["mentions"]} == {who[name] for name in mentions}
    assert (told["editCount"], told["idempotencyKey"]) == (0, None)
    assert told["content"].strip()
    for name in stay:
        assert (await live[name].next())["message"] == told
        session = await api.own_session(who[name], group)
        assert session["activeTs"] > before[name]["activeTs"]
        assert session["lastMessage"]["id"] == told["id"]
        moved = {"activeTs", "writeSeq", "lastMessage", "conversation", "readSeq", "deliveredSeq"}
        assert {f: v for f, v in session.items() if f not in moved} == {
            f: v for f, v in before[name].items() if f not in moved
        }
        assert session["writeSeq"] == 3
        assert await api.total_unread(who[name]) == totals[name]
    shown = await api.titles(who["carol"])
    assert shown.index(who["frank"]) == order.index(who["frank"])
    assert await api.unread(who["carol"], group) == 2


@pytest.mark.parametrize("act", UNTOLD.values(), ids=UNTOLD.keys())
async def test_the_system_says_nothing_of_other_things(api: Api, act: Act) -> None:
    names = ("alice", "bob", "carol")
    who = dict(zip(names, await api.create_users(*names), strict=True))
    group = await api.create_group(*who.values())
    await act(api, group, who)
    assert await api.history(who["bob"], group) == []


@pytest.mark.parametrize(("act", "sender", "mentions"), TOLD.values(), ids=TOLD.keys())
async def test_what_the_system_says_revives_nothing(api: Api, act: Act, sender: str, mentions: list[str]) -> None:
    names = ("alice", "bob", "carol", "dave", "erin")
    who = dict(zip(names, await api.create_users(*names), strict=True))
    group = await api.create_group(*(who[name] for name in ("alice", "bob", "carol")))
    await api.send(who["bob"], group, "hello")
    await api.delete(who["carol"], group)
    await act(api, group, who)
    assert (await api.own_session(who["carol"], group))["status"] == "INVALID"
    assert await api.sessions(who["carol"]) == []
    await api.send(who["alice"], group, "hello")
    assert (await api.own_session(who["carol"], group))["status"] == "ACTIVE"


@pytest.mark.parametrize("text", ["SYSTEM"])
async def test_nobody_else_speaks_as_the_system(api: Api, text: str) -> None:
    alice, bob, carol, group = await three(api)
    watching = await take_snapshot(api, group, alice, bob, carol)
    assert await api.expect_send_refusal(alice, group, contentType=text) == Refusal("INVALID_INPUT", "contentType")
    await watching.assert_unchanged()


async def test_names_at_once_end_with_the_one_that_was_told_last(api: Api, other_api: Api) -> None:
    alice, bob, _, group = await three(api)
    await gather_all(*((api, other_api)[n % 2].update_group(alice, group, name=f"Name {n}") for n in range(8)))
    last = (await api.history(bob, group))[-1]["content"]
    for process in (api, other_api):
        assert (await process.own_group(bob, group))["name"] in last


# --- how many


async def test_who_goes_makes_room_for_one_more(api: Api, other_api: Api) -> None:
    people = await api.create_users(*"abcdefg")
    group = await api.create_group(*people[:5])
    watching = await take_snapshot(api, group, *people)
    assert await api.expect_refusal(people[1], INVITE, id=group, users=[people[5]]) == Refusal("GROUP_FULL", "userIds")
    await watching.assert_unchanged()
    await api.remove(people[0], group, people[4])
    assert (await other_api.invite(people[1], group, people[5]))["memberCount"] == 5
    assert await api.expect_refusal(people[1], INVITE, id=group, users=[people[4]]) == Refusal("GROUP_FULL", "userIds")
    await api.leave(people[3], group)
    assert (await api.invite(people[5], group, people[4]))["memberCount"] == 5
    assert set(await api.roles(people[0], group)) == {people[n] for n in (0, 1, 2, 4, 5)}


async def test_the_room_that_somebody_made_is_taken_once(api: Api, other_api: Api, deployments: Deployments) -> None:
    for _ in range(3):
        people = await api.create_users(*"abcdefg")
        group = await api.create_group(*people[:5])
        codes = await gather_all(
            api.run(people[1], INVITE, id=group, users=[people[5]]),
            other_api.leave(people[4], group),
            other_api.run(people[2], INVITE, id=group, users=[people[6]]),
        )
        refused = [code["errors"][0]["extensions"]["code"] for code in (codes[0], codes[2]) if "errors" in code]
        assert set(refused) <= {"GROUP_FULL"} and len(refused) >= 1
        for lost in (False, True):
            if lost:
                await api.wait_until_idle()
                deployments.flush_redis("main")
            for process in (api, other_api):
                shown = await process.own_group(people[0], group)
                assert shown["memberCount"] == len(shown["members"]["edges"]) == 6 - len(refused)
