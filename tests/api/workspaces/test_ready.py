"""ready: what a client needs for its first screen, complete up to its cursor."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.channels.calls import Made, make_workspace
from tests.api.channels.session_calls import FOLLOW, change
from tests.api.client import Api, gather_all
from tests.api.events import read_missed_events
from tests.api.requests.test_budgets import Meter
from tests.api.workspaces.calls import add_members, create_workspace

READY = """{ ready { me { id displayName } attention { unread mentions threads } cursor
    sessions { totalUnread cursor edges { cursor node { id unreadCount conversation { id title }
        lastMessage { content sender { displayName } } } } pageInfo { hasNextPage } }
    workspaces { id name memberCount rev viewerPermissions viewer { nickname } }
    presence { setting until shown customStatus { text } } } }"""
LEAVE = "mutation ($id: ID!) { leaveWorkspace(workspaceId: $id) }"
CAUGHT_UP = """subscription ($workspaces: [Position!]!) { workspaceEvents(workspaces: $workspaces) {
    __typename ... on WorkspaceCaughtUp { workspaceId reset } } }"""


async def test_a_new_user_has_an_empty_first_screen(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    ready = (await api.data(alice, READY))["ready"]
    assert ready["me"] == {"id": alice, "displayName": alice}
    assert ready["attention"] == {"unread": 0, "mentions": 0, "threads": 0}
    assert (ready["sessions"]["edges"], ready["workspaces"]) == ([], [])
    assert ready["presence"] == {"setting": "ONLINE", "until": None, "shown": "OFFLINE", "customStatus": None}
    assert await read_missed_events(api, alice, ready["cursor"]) == []


async def test_the_first_screen_has_what_the_single_queries_answer(api: Api, other_api: Api) -> None:
    made = await make_workspace(api)
    channel = (await made.create())["id"]
    await api.send(made.outsider, made.member)
    await api.send(made.owner, channel, mentions=[made.member])
    second = await create_workspace(api, made.member)
    for process in (api, other_api):
        ready = (await process.data(made.member, READY))["ready"]
        assert ready["attention"] == {"unread": 1, "mentions": 1, "threads": 0}
        assert [each["id"] for each in ready["workspaces"]] == [made.id, second]
        assert [each["memberCount"] for each in ready["workspaces"]] == [2, 1]
        assert [bool(each["viewerPermissions"]) for each in ready["workspaces"]] == [True, True]
        alone = await process.data(made.member, "{ sessions { edges { cursor } } }")
        assert [e["cursor"] for e in ready["sessions"]["edges"]] == [e["cursor"] for e in alone["sessions"]["edges"]]
        assert ready["sessions"]["cursor"] == ready["cursor"]
        positions = [{"id": each["id"], "rev": each["rev"]} for each in ready["workspaces"]]
        device = await process.subscribe(made.member, CAUGHT_UP, workspaces=positions)
        caught_up = set()
        while len(caught_up) < len(positions):
            event = await device.next()
            if event["__typename"] == "WorkspaceCaughtUp":
                assert not event["reset"]
                caught_up.add(event["workspaceId"])
        await device.stop()
    await api.data(made.member, LEAVE, id=made.id)
    for process in (other_api, api):
        ready = (await process.data(made.member, READY))["ready"]
        assert ([each["id"] for each in ready["workspaces"]], ready["attention"]["mentions"]) == ([second], 0)


async def test_nothing_is_lost_between_the_first_screen_and_the_events_after_it(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice, "0")

    async def send() -> None:
        for number in range(1, 12):
            await other_api.send(bob, alice, str(number))

    sending = asyncio.create_task(send())
    screens = []
    while not sending.done():
        screens.append((await api.data(alice, READY))["ready"])
    await sending
    await gather_all(*(process.wait_until_idle() for process in (api, other_api)))
    for screen in screens:
        (edge,) = screen["sessions"]["edges"]
        shown = int(edge["node"]["lastMessage"]["content"])
        events = await read_missed_events(api, alice, screen["cursor"])
        missed = [int(each["message"]["content"]) for each in events]
        # The newest message is read after the cursor, so it may be newer.
        assert missed == list(range(12 - len(missed), 12)) and 12 - len(missed) <= shown + 1
        assert screen["sessions"]["totalUnread"] == screen["attention"]["unread"] or missed


async def test_budget_of_ready(api: Api) -> None:
    made = await make_workspace(api)
    others: list[Made] = [await make_workspace(api) for _ in range(4)]
    channel = (await made.create())["id"]
    await change(api, made.owner, FOLLOW, id=channel)
    await api.send(made.member, channel, mentions=[made.owner])
    await api.send(others[0].owner, made.owner)
    for _ in others:
        await create_workspace(api, made.owner)
    await Meter(api).expect("ready", lambda: api.data(made.owner, READY), 0, 3)


async def _workspaces_of(api: Api, user: str) -> dict[str, tuple[str, int]]:
    """Return the name and the number of members of each workspace on a user's first screen."""
    ready = (await api.data(user, READY))["ready"]
    return {each["id"]: (each["name"], each["memberCount"]) for each in ready["workspaces"]}


async def test_changes_on_one_server_are_on_the_first_screen_of_another(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await make_workspace(api)
    both = (api, other_api)
    for process in both:
        assert await _workspaces_of(process, made.member) == {made.id: ("Hikers", 2)}
        assert await _workspaces_of(process, made.outsider) == {}
    await add_members(other_api, made.id, made.outsider)
    for process in both:
        assert await _workspaces_of(process, made.outsider) == {made.id: ("Hikers", 3)}
    rename = 'mutation ($id: ID!) { updateWorkspace(workspaceId: $id, input: { name: "Climbers" }) { id } }'
    await api.data(made.owner, rename, id=made.id)
    for process in both:
        assert await _workspaces_of(process, made.member) == {made.id: ("Climbers", 3)}
    await other_api.data(made.outsider, LEAVE, id=made.id)
    new = await create_workspace(other_api, made.member, "New")
    for process in both:
        assert await _workspaces_of(process, made.member) == {made.id: ("Climbers", 2), new: ("New", 1)}
        assert await _workspaces_of(process, made.outsider) == {}
    stamps = other_api.services.app.store.memberships._stamps
    with monkeypatch.context() as dying:
        # The server dies after the transaction.
        dying.setattr(stamps, "_end", _dies)
        with pytest.raises(AssertionError):
            await add_members(other_api, made.id, made.outsider)
    for process in both:
        assert await _workspaces_of(process, made.outsider) == {made.id: ("Climbers", 3)}
    await api.data(made.owner, "mutation ($id: ID!) { deleteWorkspace(workspaceId: $id) }", id=made.id)
    for process in both:
        assert await _workspaces_of(process, made.member) == {new: ("New", 1)}


async def _dies(*_: object) -> None:
    raise RuntimeError("the server died")
