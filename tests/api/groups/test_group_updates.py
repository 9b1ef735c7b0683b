"""updateGroup: name, avatar and history visibility; the SYSTEM messages about groups; the maximum number of members."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.api.client import CREATE_GROUP, INVITE, LIVE_SESSIONS, Api, Json, Refusal, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.group_calls import UPDATE_GROUP
from tests.api.state_snapshot import take_snapshot

AVATAR = "https://example.org/a.png"
VALID_NAMES = [
    "x",
    "x" * 100,
    "🙂" * 100,
    "👩‍👩‍👧‍👦 family",
    "مرحبا بالجميع",
    " x ",
    "<b>&amp;",
    "e\u0301",
]
INVALID_NAMES = [
    "",
    " ",
    "\u3000\u2003",
    "x" * 101,
    "🙂" * 101,
    "a\x00",
    "a\nb",
    "a\x1b[0m",
    "a\x85",
    "a\x7f",
    "\ud800",
]


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    """A process whose groups have at most five members."""
    async with open_api("main", max_group_members=5) as api:
        yield api


@pytest.fixture(scope="module")
async def other_process(process: Api, open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("main", max_group_members=5) as api:
        yield api


async def create_group_of_three(api: Api, **fields: Any) -> tuple[str, str, str, str]:
    """Create alice's group with two members."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    return alice, bob, carol, await api.create_group(alice, bob, carol, **fields)


async def test_a_new_name_is_kept_unchanged_and_shown_everywhere(
    api: Api, other_api: Api, deployments: Deployments
) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    for name in VALID_NAMES:
        returned_group = await api.update_group(alice, group, name=name)
        assert (returned_group["name"], returned_group["title"]) == (name, name)
        assert returned_group == await api.group(alice, group)
        for lost in (False, True):
            if lost:
                await api.wait_until_idle()
                deployments.flush_redis("main")
            for process in (api, other_api):
                for user in (alice, bob, carol):
                    assert (await process.own_group(user, group))["name"] == name
                    assert await process.titles(user) == [name]


async def test_an_invalid_name_is_refused(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    for name in INVALID_NAMES:
        refusal = await api.expect_refusal(alice, UPDATE_GROUP, id=group, input={"name": name, "avatarUrl": AVATAR})
        assert refusal == Refusal("INVALID_INPUT", "name"), ascii(name)
    await snapshot.assert_unchanged()


async def test_the_rules_for_new_names_equal_those_of_create_group(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    for name in (*VALID_NAMES, *INVALID_NAMES, "\u200b", "\u200b\u2060\ufeff", "\u00ad", "\u2800"):
        created = await api.run(alice, CREATE_GROUP, input={"name": name, "memberIds": [bob, carol]})
        renamed = await api.run(alice, UPDATE_GROUP, id=group, input={"name": name})
        assert ("errors" in renamed) is ("errors" in created), ascii(name)


async def test_an_invalid_avatar_is_refused(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api, avatarUrl=AVATAR)
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    for url in ("", "x", "javascript:x", "ftp://x/", "https://x/\x00", "https://x/" + "y" * 2048):
        refusal = await api.expect_refusal(alice, UPDATE_GROUP, id=group, input={"name": "Other", "avatarUrl": url})
        assert refusal == Refusal("INVALID_INPUT", "avatarUrl"), url[:20]
    await snapshot.assert_unchanged()


@pytest.mark.parametrize(
    "fields", [{"historyVisibility": "ALL"}, {"nonsense": 1}, {"name": 5}, {"name": ["x"]}], ids=str
)
async def test_unknown_fields_and_values_are_refused(api: Api, fields: Json) -> None:
    alice, _, _, group = await create_group_of_three(api)
    stored = await api.stored_hashes()
    assert (await api.expect_refusal(alice, UPDATE_GROUP, id=group, input=fields)).code == "INVALID_INPUT"
    assert await api.stored_hashes() == stored


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
async def test_only_the_given_fields_change(
    api: Api, other_api: Api, deployments: Deployments, fields: Json, changed: Json
) -> None:
    alice, bob, carol, group = await create_group_of_three(api, name="Old", avatarUrl=AVATAR)
    await api.update_group(alice, group, **fields)
    expected = {"name": "Old", "avatarUrl": AVATAR, "historyVisibility": "SINCE_JOIN"} | changed
    for lost in (False, True):
        if lost:
            await api.wait_until_idle()
            deployments.flush_redis("main")
        for process, user in ((api, alice), (other_api, bob), (api, carol)):
            returned_group = await process.own_group(user, group)
            assert {name: returned_group[name] for name in expected} == expected
            assert (returned_group["memberCount"], returned_group["owner"]) == (3, {"id": alice})
    # Only a new name causes a SYSTEM message.
    assert len(await api.history(bob, group)) == ("name" in changed)


async def test_an_update_with_the_same_values_changes_nothing(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api, name="Old", avatarUrl=AVATAR, historyVisibility="FULL")
    await api.send(bob, group)
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    for fields in (
        {},
        {"name": None},
        {"name": "Old"},
        {"avatarUrl": AVATAR},
        {"historyVisibility": "FULL"},
        {"historyVisibility": None},
        {"name": "Old", "avatarUrl": AVATAR, "historyVisibility": "FULL"},
    ):
        assert await api.update_group(alice, group, **fields) == await api.group(alice, group), fields
    await snapshot.assert_unchanged()


async def test_removing_a_missing_avatar_changes_nothing(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    assert (await api.update_group(alice, group, avatarUrl=None))["avatarUrl"] is None
    await snapshot.assert_unchanged()


@pytest.mark.parametrize("fields", [{"avatarUrl": AVATAR}, {"historyVisibility": "FULL"}], ids=str)
async def test_a_new_avatar_or_visibility_moves_only_the_clock_of_sessions(api: Api, fields: Json) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    devices = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol)]
    sessions = {user: await api.own_session(user, group) for user in (alice, bob, carol)}
    await api.update_group(alice, group, **fields)
    for user, before in sessions.items():
        after = await api.own_session(user, group)
        assert after == before | {"activeTs": after["activeTs"]}
    for device in devices:
        await device.expect_no_event(0.02)


Change = Callable[[Api, str, dict[str, str]], Awaitable[object]]

ANNOUNCED: dict[str, tuple[Change, str, list[str]]] = {
    "joining": (
        lambda api, group, users: api.invite(users["bob"], group, users["dave"], users["erin"]),
        "bob",
        ["dave", "erin"],
    ),
    "leaving": (lambda api, group, users: api.leave(users["bob"], group), "bob", ["bob"]),
    "removal": (lambda api, group, users: api.remove(users["alice"], group, users["bob"]), "alice", ["bob"]),
    "a transfer": (lambda api, group, users: api.transfer(users["alice"], group, users["carol"]), "alice", ["carol"]),
    "a name": (lambda api, group, users: api.update_group(users["alice"], group, name="New"), "alice", []),
}
SILENT: dict[str, Change] = {
    "a role": lambda api, group, users: api.set_role(users["alice"], group, users["carol"], "ADMIN"),
    "a picture": lambda api, group, users: api.update_group(users["alice"], group, avatarUrl=AVATAR),
    "a setting": lambda api, group, users: api.update_group(users["alice"], group, historyVisibility="FULL"),
    "inviting members": lambda api, group, users: api.invite(users["bob"], group, users["carol"]),
}


@pytest.mark.parametrize(("change", "sender", "mentions"), ANNOUNCED.values(), ids=ANNOUNCED.keys())
@pytest.mark.parametrize("lost", [pytest.param(False, marks=pytest.mark.long), True], ids=["cached", "lost"])
async def test_a_change_is_announced_by_one_uncounted_system_message(
    api: Api, deployments: Deployments, change: Change, sender: str, mentions: list[str], lost: bool
) -> None:
    names = ("alice", "bob", "carol", "dave", "erin", "frank")
    users = dict(zip(names, await api.create_users(*names), strict=True))
    group = await api.create_group(*(users[name] for name in ("alice", "bob", "carol")))
    await api.send(users["bob"], group, "hello", mentions=[users["alice"], users["carol"]])
    await api.send(users["alice"], group, "and you", mentionAll=True)
    await api.set_unread(users["carol"], group)
    await api.send(users["frank"], users["carol"], "newer than the group")
    await api.wait_until_idle()
    if lost:
        deployments.flush_redis("main")
    staying = [name for name in ("alice", "bob", "carol") if [name] != mentions or name == "carol"]
    before = {name: await api.own_session(users[name], group) for name in staying}
    totals = {name: await api.total_unread(users[name]) for name in staying}
    listeners = {name: await api.listen(users[name]) for name in staying}
    titles_before = await api.titles(users["carol"])
    await asyncio.sleep(0.002)
    await change(api, group, users)
    history = await api.history(users["alice"], group)
    assert len(history) == 3
    system_message = history[-1]
    assert (system_message["contentType"], system_message["state"], system_message["seq"]) == ("SYSTEM", "NORMAL", 3)
    assert (system_message["sender"]["id"], system_message["mentionsAll"], system_message["replyTo"]) == (
        users[sender],
        False,
        None,
    )
    assert {user["id"] for user in system_message["mentions"]} == {users[name] for name in mentions}
    assert (system_message["editCount"], system_message["idempotencyKey"]) == (0, None)
    assert system_message["content"].strip()
    for name in staying:
        assert (await listeners[name].next())["message"] == system_message
        session = await api.own_session(users[name], group)
        assert session["activeTs"] > before[name]["activeTs"]
        assert session["lastMessage"]["id"] == system_message["id"]
        moved_fields = {"activeTs", "writeSeq", "lastMessage", "conversation", "readSeq", "deliveredSeq"}
        assert {f: v for f, v in session.items() if f not in moved_fields} == {
            f: v for f, v in before[name].items() if f not in moved_fields
        }
        assert session["writeSeq"] == 3
        assert await api.total_unread(users[name]) == totals[name]
    returned_group = await api.titles(users["carol"])
    assert returned_group.index(users["frank"]) == titles_before.index(users["frank"])
    assert await api.unread(users["carol"], group) == 2


@pytest.mark.parametrize("change", SILENT.values(), ids=SILENT.keys())
async def test_other_changes_have_no_system_message(api: Api, change: Change) -> None:
    names = ("alice", "bob", "carol")
    users = dict(zip(names, await api.create_users(*names), strict=True))
    group = await api.create_group(*users.values())
    await change(api, group, users)
    assert await api.history(users["bob"], group) == []


@pytest.mark.parametrize(("change", "sender", "mentions"), ANNOUNCED.values(), ids=ANNOUNCED.keys())
async def test_system_messages_revive_no_deleted_session(
    api: Api, change: Change, sender: str, mentions: list[str]
) -> None:
    names = ("alice", "bob", "carol", "dave", "erin")
    users = dict(zip(names, await api.create_users(*names), strict=True))
    group = await api.create_group(*(users[name] for name in ("alice", "bob", "carol")))
    await api.send(users["bob"], group, "hello")
    await api.delete(users["carol"], group)
    await change(api, group, users)
    assert (await api.own_session(users["carol"], group))["status"] == "INVALID"
    assert await api.sessions(users["carol"]) == []
    await api.send(users["alice"], group, "hello")
    assert (await api.own_session(users["carol"], group))["status"] == "ACTIVE"


@pytest.mark.parametrize("text", ["SYSTEM"])
async def test_users_cannot_send_system_messages(api: Api, text: str) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    assert await api.expect_send_refusal(alice, group, contentType=text) == Refusal("INVALID_INPUT", "contentType")
    await snapshot.assert_unchanged()


async def test_concurrent_new_names_end_with_the_last_announced(api: Api, other_api: Api) -> None:
    alice, bob, _, group = await create_group_of_three(api)
    await gather_all(*((api, other_api)[n % 2].update_group(alice, group, name=f"Name {n}") for n in range(8)))
    last = (await api.history(bob, group))[-1]["content"]
    for process in (api, other_api):
        assert (await process.own_group(bob, group))["name"] in last


async def test_a_place_in_a_full_group_is_free_after_a_departure(api: Api, other_api: Api) -> None:
    users = await api.create_users(*"abcdefg")
    group = await api.create_group(*users[:5])
    snapshot = await take_snapshot(api, group, *users)
    assert await api.expect_refusal(users[1], INVITE, id=group, users=[users[5]]) == Refusal("GROUP_FULL", "userIds")
    await snapshot.assert_unchanged()
    await api.remove(users[0], group, users[4])
    assert (await other_api.invite(users[1], group, users[5]))["memberCount"] == 5
    assert await api.expect_refusal(users[1], INVITE, id=group, users=[users[4]]) == Refusal("GROUP_FULL", "userIds")
    await api.leave(users[3], group)
    assert (await api.invite(users[5], group, users[4]))["memberCount"] == 5
    assert set(await api.roles(users[0], group)) == {users[n] for n in (0, 1, 2, 4, 5)}


async def test_a_free_place_in_a_group_is_taken_once(api: Api, other_api: Api, deployments: Deployments) -> None:
    for _ in range(3):
        users = await api.create_users(*"abcdefg")
        group = await api.create_group(*users[:5])
        codes = await gather_all(
            api.run(users[1], INVITE, id=group, users=[users[5]]),
            other_api.leave(users[4], group),
            other_api.run(users[2], INVITE, id=group, users=[users[6]]),
        )
        refused = [code["errors"][0]["extensions"]["code"] for code in (codes[0], codes[2]) if "errors" in code]
        assert set(refused) <= {"GROUP_FULL"} and len(refused) >= 1
        for lost in (False, True):
            if lost:
                await api.wait_until_idle()
                deployments.flush_redis("main")
            for process in (api, other_api):
                returned_group = await process.own_group(users[0], group)
                assert returned_group["memberCount"] == len(returned_group["members"]["edges"]) == 6 - len(refused)
