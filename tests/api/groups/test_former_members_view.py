"""Former members see a group as it was when they left, by every path; present members see it as it is."""

from __future__ import annotations

from typing import Any

import pytest

from store.mongo.collections import MESSAGES
from tests.api.client import SYNC, Api, Json
from tests.api.conftest import Deployments
from tests.api.events import current_cursor, read_missed_events
from tests.api.groups.departures import Departure, both_departures, create_group_with_messages

OLD_AVATAR, NEW_AVATAR = "https://example.org/old.png", "https://example.org/new.png"

GROUP = """__typename ... on Group {
    id title name avatarUrl metadata memberCount status viewerRole owner { id }
    members { edges { node { user { id } } } } }"""
IN_SESSION = f"conversation {{ {GROUP} }}"

PATHS = {
    "group": f"query ($id: ID!) {{ found: group(id: $id) {{ {GROUP} }} }}",
    "conversation": f"query ($id: ID!) {{ found: conversation(id: $id) {{ {GROUP} }} }}",
    "node": f"query ($id: ID!) {{ found: node(id: $id) {{ {GROUP} }} }}",
    "session": f"query ($id: ID!) {{ session(conversationId: $id) {{ {IN_SESSION} }} }}",
    "node of a session": f"query ($session: ID!) {{ node(id: $session) {{ ... on Session {{ {IN_SESSION} }} }} }}",
    "sessions": f"{{ sessions {{ edges {{ node {{ {IN_SESSION} }} }} }} }}",
    "syncSessions": f"{{ syncSessions {{ sessions {{ {IN_SESSION} }} }} }}",
    "markRead": f"mutation ($id: ID!) {{ markRead(conversationId: $id, upToSeq: 0) {{ {IN_SESSION} }} }}",
    "ackDelivered": f"mutation ($id: ID!) {{ ackDelivered(conversationId: $id, upToSeq: 0) {{ {IN_SESSION} }} }}",
    "muteSession": f"mutation ($id: ID!) {{ muteSession(conversationId: $id, muted: true) {{ {IN_SESSION} }} }}",
}
"""Every way to a group that a former member has, except events."""

LIVE_SESSIONS = f"subscription ($since: Cursor) {{ syncSession(since: $since) {{ sessions {{ {IN_SESSION} }} }} }}"


def _groups_in(answer: Any) -> list[Json]:
    """Return all groups in an answer."""
    if isinstance(answer, list):
        return [group for item in answer for group in _groups_in(item)]
    if not isinstance(answer, dict):
        return []
    if answer.get("__typename") == "Group":
        return [answer]
    return [group for item in answer.values() for group in _groups_in(item)]


async def read_by(api: Api, path: str, user: str, group: str) -> Json:
    """Return the one group that a path shows to a user."""
    query = PATHS[path]
    arguments = {"id": group, "session": f"s_{user}_{group}"}
    used = {name: value for name, value in arguments.items() if f"${name}:" in query}
    (found,) = _groups_in(await api.data(user, query, **used))
    return found


async def change_everything(api: Api, owner: str, member: str, group: str) -> None:
    """Change every field of a group that its members see."""
    (dave,) = await api.create_users("dave")
    await api.update_group(owner, group, name="New name", avatarUrl=NEW_AVATAR, metadata={"new": 1})
    await api.invite(owner, group, dave)
    await api.transfer(owner, group, member)
    await api.wait_until_idle()


async def create_group(api: Api) -> tuple[str, str, str, str]:
    return await create_group_with_messages(api, count=1, avatarUrl=OLD_AVATAR, metadata={"old": [1]})


@both_departures
async def test_no_path_shows_a_former_member_a_later_change(
    api: Api, other_api: Api, deployments: Deployments, depart: Departure
) -> None:
    alice, bob, carol, group = await create_group(api)
    await depart(api, alice, group, bob)
    at_departure = await read_by(api, "group", bob, group)
    assert at_departure == {
        "__typename": "Group", "id": group, "title": "The group", "name": "The group", "avatarUrl": OLD_AVATAR,
        "metadata": {"old": [1]}, "memberCount": 2, "status": "ACTIVE", "viewerRole": None, "owner": {"id": alice},
        "members": None,
    }  # fmt: skip
    await change_everything(api, alice, carol, group)
    for lost in (False, True):
        if lost:
            deployments.flush_redis("main")
        for process in (api, other_api):
            for path in PATHS:
                assert await read_by(process, path, bob, group) == at_departure, path
                present = await read_by(process, path, carol, group)
                names = ("name", "title", "avatarUrl", "metadata", "memberCount", "owner", "viewerRole")
                shown = tuple(present[name] for name in names)
                assert shown == ("New name", "New name", NEW_AVATAR, {"new": 1}, 3, {"id": carol}, "OWNER"), path


@both_departures
async def test_events_show_a_former_member_no_later_change(api: Api, other_api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group(api)
    live = [await process.listen(bob) for process in (api, other_api)]
    of_sessions = await api.subscribe(bob, LIVE_SESSIONS)
    assert _groups_in(await of_sessions.next()) == []
    synced, since = (await api.data(bob, SYNC))["syncSessions"]["cursor"], await current_cursor(api, bob)
    await api.update_group(alice, group, name="Last seen", avatarUrl=None)
    await depart(api, alice, group, bob)
    await change_everything(api, alice, carol, group)
    for device in live:
        assert [event["__typename"] for event in await device.take(2)] == ["MessageCreated", "GroupChanged"]
        await device.expect_no_event(0.03)
    assert [shown["name"] for shown in _groups_in(await of_sessions.next())] == ["Last seen"]
    await of_sessions.expect_no_event(0.03)
    for process in (api, other_api):
        replayed = (await read_missed_events(process, bob, since))[-1]
        assert (replayed["__typename"], replayed["group"]["name"]) == ("GroupChanged", "Last seen")
        assert (replayed["group"]["avatarUrl"], replayed["group"]["owner"]) == (None, {"id": alice})
        caught_up = await (await process.subscribe(bob, LIVE_SESSIONS, since=synced)).next()
        assert [shown["name"] for shown in _groups_in(caught_up)] == ["Last seen"]


async def test_each_departure_has_its_own_view_and_rejoining_shows_the_present(api: Api, other_api: Api) -> None:
    alice, bob, carol, group = await create_group(api)
    for number in range(2):
        await api.remove(alice, group, bob)
        await api.update_group(alice, group, name=f"Without bob {number}")
        expected = "The group" if number == 0 else "With bob 0"
        for process in (api, other_api):
            assert (await process.own_group(bob, group))["name"] == expected
        await api.invite(carol, group, bob)
        for process in (api, other_api):
            assert (await process.own_group(bob, group))["name"] == f"Without bob {number}"
        await api.update_group(alice, group, name=f"With bob {number}")
        for process in (api, other_api):
            assert (await process.own_group(bob, group))["name"] == f"With bob {number}"


@pytest.mark.parametrize("end", ["dissolved", "dismissed"])
async def test_the_end_of_a_group_is_all_that_a_former_member_learns(api: Api, other_api: Api, end: str) -> None:
    alice, bob, carol, group = await create_group(api)
    await api.leave(bob, group)
    await change_everything(api, alice, carol, group)
    await (api.dissolve if end == "dissolved" else api.dismiss)(carol, group)
    await api.wait_until_idle()
    for process in (api, other_api):
        for user, name, owner in ((bob, "The group", alice), (alice, "New name", carol)):
            seen = await read_by(process, "session", user, group)
            assert (seen["name"], seen["title"], seen["owner"]) == (name, name, {"id": owner})
            assert (seen["status"], seen["memberCount"], seen["members"]) == ("DISSOLVED", 0, None)
        found = await process.group(bob, group)
        assert found is None if end == "dismissed" else (found["name"], found["status"]) == ("The group", "DISSOLVED")


async def test_a_departure_that_was_stored_without_the_group_shows_the_present(api: Api, other_api: Api) -> None:
    alice, bob, carol, group = await create_group(api)
    await api.leave(bob, group)
    mongo = api.services.app.store.mongo
    await mongo.update_one(MESSAGES, {"c": group, "gs": {"$exists": True}}, {"$unset": {"gs": ""}})
    await change_everything(api, alice, carol, group)
    for path in PATHS:
        seen = await read_by(other_api, path, bob, group)
        assert (seen["name"], seen["members"], seen["viewerRole"]) == ("New name", None, None), path


async def test_groups_that_a_user_has_left_cost_no_round_trip_once_they_are_known(api: Api) -> None:
    alice, bob, _, group = await create_group(api)
    store = api.services.app.store

    async def trips_of_a_page() -> tuple[int, int]:
        await api.wait_until_idle()
        before = store.mongo.trips, store.cache.trips
        await api.data(bob, "{ sessions { edges { node { conversation { title } } } } }")
        return store.mongo.trips - before[0], store.cache.trips - before[1]

    as_member = min([await trips_of_a_page() for _ in range(4)])
    await api.remove(alice, group, bob)
    first, *others = [await trips_of_a_page() for _ in range(5)]
    assert first[0] == 1
    assert min(others) == as_member == (0, 2)
