"""The end of a group: dismissed, and nothing of it is left; or dissolved, and what was said stays to be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from subscriptions.transport.engine import RequestRefused
from tests.api.client import (
    INVITE,
    LIVE_MESSAGES,
    LIVE_SESSIONS,
    SEND,
    SYNC,
    Api,
    Json,
    Refusal,
    gather_all,
    parse_refusal,
)
from tests.api.conftest import Deployments
from tests.api.group_calls import DISMISS, DISSOLVE, LEAVE, REMOVE, SET_ROLE, TRANSFER, UPDATE_GROUP
from tests.api.sample_group import RELATIONS, SampleGroup, create_sample_group
from tests.api.state_snapshot import take_snapshot

End = Callable[[Api, str, str], Awaitable[None]]

ENDS: dict[str, End] = {
    "dismissed": lambda api, owner, group: api.dismiss(owner, group),
    "dissolved": lambda api, owner, group: api.dissolve(owner, group),
}
either = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
WERE_IN_IT = [part for part in RELATIONS if part != "outsider"]


def code_after(end: End) -> str:
    """With what members and former ones are refused afterwards."""
    return "NOT_FOUND" if end is ENDS["dismissed"] else "NOT_A_MEMBER"


@dataclass(frozen=True)
class Ended:
    """A group that has ended, how, and what was shown of it before."""

    sample: SampleGroup
    end: End
    histories: dict[str, list[Json]]
    sessions: dict[str, Json]


async def brought_about(api: Api, end: End, **group: object) -> Ended:
    sample = await create_sample_group(api, **group)
    were = {part: getattr(sample, part) for part in WERE_IN_IT}
    histories = {part: await api.history(user, sample.group) for part, user in were.items()}
    sessions = {part: await api.own_session(user, sample.group) for part, user in were.items()}
    await end(api, sample.owner, sample.group)
    return Ended(sample, end, histories, sessions)


@pytest.fixture(scope="module", params=ENDS.values(), ids=ENDS.keys())
async def ended(request: pytest.FixtureRequest, process: Api) -> Ended:
    return await brought_about(process, request.param, name="The group")


# --- what is shown


async def look(api: Api, user: str, sample: SampleGroup) -> Json:
    """Everything by which a client could come to the group or to what was said in it."""
    query = """query ($group: ID!, $message: ID!) {
        group(id: $group) { status } conversation(id: $group) { title } node(id: $group) { id }
        messages(conversationId: $group, first: 100) { edges { node { seq } } }
        message(id: $message) { content } one: node(id: $message) { id } myGroups { edges { node { id } } } }"""
    return await api.data(user, query, group=sample.group, message=sample.message)


@pytest.mark.parametrize("part", RELATIONS)
async def test_of_a_group_that_was_dismissed_nothing_is_found(api: Api, part: str) -> None:
    ended = await brought_about(api, ENDS["dismissed"])
    shown = await look(api, getattr(ended.sample, part), ended.sample)
    assert shown.pop("myGroups") == {"edges": []}
    assert set(shown.values()) == {None}


@pytest.mark.parametrize("part", RELATIONS)
async def test_what_was_said_in_a_group_that_was_dissolved_stays_with_those_who_could_read_it(
    api: Api, part: str
) -> None:
    ended = await brought_about(api, ENDS["dissolved"])
    user = getattr(ended.sample, part)
    shown = await look(api, user, ended.sample)
    assert shown.pop("myGroups") == {"edges": []}
    if part == "outsider":
        assert set(shown.values()) == {None}
        return
    assert shown["group"] == {"status": "DISSOLVED"}
    assert shown["message"] == {"content": "for everybody"}
    assert await api.history(user, ended.sample.group) == ended.histories[part]
    group = await api.own_group(user, ended.sample.group)
    last = ended.histories[part][-1]["seq"]
    assert group["visibleRanges"] == [{"fromSeq": 1, "toSeq": last}]
    assert group["lastMessage"]["seq"] == last
    assert (group["memberCount"], group["members"], group["viewerRole"]) == (0, None, None)
    assert group["owner"] == {"id": ended.sample.owner}


@pytest.mark.parametrize("part", WERE_IN_IT)
async def test_the_session_of_everybody_who_was_in_it_is_a_tombstone(api: Api, ended: Ended, part: str) -> None:
    user, before = getattr(ended.sample, part), ended.sessions[part]
    session = await api.own_session(user, ended.sample.group)
    assert (session["status"], session["unreadCount"], session["unreadMentionCount"]) == ("INVALID", 0, 0)
    assert session["unreadStatus"] is False
    assert session["activeTs"] > before["activeTs"]
    assert (session["id"], session["writeTs"]) == (before["id"], before["writeTs"])
    assert session["conversation"] == {
        "__typename": "Group",
        "id": ended.sample.group,
        "type": "GROUP",
        "title": "The group",
    }
    assert (await api.sessions(user), await api.total_unread(user)) == ([], 0)
    assert (await api.data(user, SYNC))["syncSessions"]["sessions"] == []
    node = await api.data(user, "query ($id: ID!) { node(id: $id) { ... on Session { status } } }", id=session["id"])
    assert node == {"node": {"status": "INVALID"}}


@pytest.mark.parametrize("part", WERE_IN_IT)
async def test_the_tombstone_tells_what_the_group_was(api: Api, ended: Ended, part: str) -> None:
    query = """query ($id: ID!) { session(conversationId: $id) { lastMessage { content } conversation { ... on Group {
        id name title status memberCount viewerRole owner { id } members { edges { node { role } } }
        visibleRanges { fromSeq toSeq } lastMessage { content } session { status } } } } }"""
    session = (await api.data(getattr(ended.sample, part), query, id=ended.sample.group))["session"]
    shown = session["conversation"]
    assert (shown["id"], shown["name"], shown["title"]) == (ended.sample.group, "The group", "The group")
    assert (shown["status"], shown["owner"]) == ("DISSOLVED", {"id": ended.sample.owner})
    assert (shown["memberCount"], shown["members"], shown["viewerRole"]) == (0, None, None)
    assert shown["session"] == {"status": "INVALID"}
    if ended.end is ENDS["dismissed"]:
        assert (shown["visibleRanges"], shown["lastMessage"], session["lastMessage"]) == ([], None, None)
    else:
        assert shown["lastMessage"]["content"] == ended.histories[part][-1]["content"]


async def test_an_outsider_has_no_tombstone(api: Api, ended: Ended) -> None:
    assert await api.session(ended.sample.outsider, ended.sample.group) is None
    assert await api.group(ended.sample.outsider, ended.sample.group) is None


async def test_all_of_it_is_the_same_after_the_cache_was_lost(api: Api, deployments: Deployments) -> None:
    for end in ENDS.values():
        sample = (await brought_about(api, end)).sample
        users = [getattr(sample, part) for part in RELATIONS]

        async def all_of_it(users: list[str] = users, sample: SampleGroup = sample) -> list[Json]:
            seen = [
                await look(api, user, sample) | {"session": await api.session(user, sample.group)} for user in users
            ]
            for shown in seen:
                if shown["session"] is not None:
                    del shown["session"]["activeTs"]
            return seen

        before = await all_of_it()
        deployments.flush_redis("main")
        assert await all_of_it() == before


# --- who is told


@either
async def test_everybody_who_was_in_it_is_told_once_and_then_nothing(api: Api, other_api: Api, end: End) -> None:
    sample = await create_sample_group(api)
    were = [getattr(sample, part) for part in WERE_IN_IT]
    synced = {(user, p): await p.listen(user, LIVE_SESSIONS) for user in were for p in (api, other_api)}
    live = [await process.listen(user) for user in were for process in (api, other_api)]
    live += [await api.listen(user, id=sample.group) for user in were]
    quiet = [await api.listen(sample.outsider), await api.listen(sample.outsider, LIVE_SESSIONS)]
    await end(api, sample.owner, sample.group)
    for (user, process), device in synced.items():
        event = await device.next()
        assert (event["reason"], event["totalUnread"], event["reset"]) == ("DELETE", 0, False)
        assert event["sessions"] == [await process.own_session(user, sample.group)]
    await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
    for device in (*live, *synced.values(), *quiet):
        await device.expect_no_event(0.02)


@either
async def test_devices_that_were_away_learn_of_it_from_their_cursors(api: Api, other_api: Api, end: End) -> None:
    sample = await create_sample_group(api)
    were = [getattr(sample, part) for part in WERE_IN_IT]
    cursors = [(await api.data(user, SYNC))["syncSessions"]["cursor"] for user in were]
    await end(api, sample.owner, sample.group)
    for user, cursor in zip(were, cursors, strict=True):
        session = await api.own_session(user, sample.group)
        for process in (api, other_api):
            delta = (await process.data(user, SYNC, since=cursor))["syncSessions"]
            assert (delta["sessions"], delta["totalUnread"], delta["reset"]) == ([session], 0, False)
            part = await (await process.subscribe(user, LIVE_SESSIONS, since=cursor)).next()
            assert (part["reason"], part["sessions"]) == ("CATCH_UP", [session])


async def test_what_was_missed_of_a_dissolved_group_is_told_and_of_a_dismissed_one_not(api: Api) -> None:
    for end in ENDS.values():
        sample = await create_sample_group(api)
        device = await api.listen(sample.admin)
        await api.send(sample.owner, sample.group, "seen")
        cursor = (await device.next())["cursor"]
        await api.send(sample.owner, sample.group, "missed")
        await end(api, sample.owner, sample.group)
        again = await api.subscribe(sample.admin, LIVE_MESSAGES, since=cursor)
        events = [await again.next()]
        while events[-1]["__typename"] != "CaughtUp":
            events.append(await again.next())
        told = [event["message"]["content"] for event in events if event["__typename"] == "MessageCreated"]
        assert told == ([] if end is ENDS["dismissed"] else ["missed"])
        await again.expect_no_event(0.02)


async def test_who_subscribes_to_it_afterwards_hears_nothing(api: Api, ended: Ended) -> None:
    for part in WERE_IN_IT:
        user = getattr(ended.sample, part)
        if ended.end is ENDS["dissolved"]:
            await (await api.listen(user, id=ended.sample.group)).expect_no_event(0.01)
            continue
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(user, LIVE_MESSAGES, id=ended.sample.group)
        assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")


# --- afterwards


async def test_nothing_can_be_done_with_it_any_more(api: Api, ended: Ended) -> None:
    sample, group = ended.sample, ended.sample.group
    deeds: list[tuple[str, Json]] = [
        (UPDATE_GROUP, {"id": group, "input": {"name": "Alive"}}),
        (INVITE, {"id": group, "users": [sample.outsider]}),
        (INVITE, {"id": group, "users": [sample.left, sample.member]}),
        (REMOVE, {"id": group, "user": sample.member}),
        (LEAVE, {"id": group}),
        (TRANSFER, {"id": group, "user": sample.member}),
        (SET_ROLE, {"id": group, "user": sample.member, "role": "ADMIN"}),
        (DISMISS, {"id": group}),
        (DISSOLVE, {"id": group}),
        (SEND, {"input": {"conversationId": group, "content": "hello"}}),
        (SEND, {"input": {"conversationId": group, "content": "hello", "mentionAll": True}}),
        (SEND, {"input": {"conversationId": group, "content": "hello", "replyToId": sample.message}}),
    ]
    watching = await take_snapshot(api, group, *sample.users)
    for part in RELATIONS:
        for query, variables in deeds:
            refusal = await api.expect_refusal(getattr(sample, part), query, **variables)
            assert refusal.code == ("NOT_FOUND" if part == "outsider" else code_after(ended.end)), (part, query)
    await watching.assert_unchanged()


@either
async def test_the_tombstone_is_one_s_own_like_any_other(api: Api, deployments: Deployments, end: End) -> None:
    sample = (await brought_about(api, end)).sample
    for user in (sample.member, sample.left, sample.removed):
        await api.mark_read(user, sample.group)
        await api.mute(user, sample.group)
        await api.pin(user, sample.group, 3)
        await api.set_unread(user, sample.group)
        await api.assign(user, "work", sample.group)
        session = await api.own_session(user, sample.group)
        assert (session["status"], session["unreadStatus"], session["unreadCount"]) == ("INVALID", False, 0)
        assert await api.sessions(user) == await api.sessions(user, category="work") == []
        hard = await api.delete(user, sample.group, hard=True)
        assert (hard["status"], hard["priority"], hard["muteStatus"], hard["categoryId"]) == ("INVALID", 0, False, None)
        await api.wait_until_idle()
        deployments.flush_redis("main")
        again = await api.own_session(user, sample.group)
        assert {**again, "activeTs": 0} == {**hard, "activeTs": 0}
        assert await api.sessions(user) == []


async def test_no_other_group_has_its_id_and_it_stays_gone(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    made = []
    for number in range(6):
        made.append(await api.create_group(alice, bob, carol, name=f"{number}"))
        await (api.dismiss if number % 2 else api.dissolve)(alice, made[-1])
    assert len(set(made)) == 6
    assert [await api.group(alice, group) is None for group in made] == [False, True] * 3


async def test_the_key_of_a_group_that_was_dismissed_brings_nothing_back(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, idempotencyKey="k")
    await api.dismiss(alice, group)
    query = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }"
    made = {"name": "Group", "memberIds": [bob, carol], "idempotencyKey": "k"}
    response = await api.run(alice, query, input=made)
    codes = [error["extensions"]["code"] for error in response.get("errors", ())]
    assert codes in ([], ["NOT_FOUND"])
    assert codes or response["data"]["createGroup"]["id"] != group
    assert (await api.own_session(bob, group))["status"] == "INVALID"
    assert await api.group(alice, group) is None
