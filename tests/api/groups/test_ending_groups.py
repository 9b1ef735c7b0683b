"""The end of a group: a dismissed group is gone, a dissolved one stays readable for everybody who was a member."""

from __future__ import annotations

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
from tests.api.groups.endings import (
    CURRENT_AND_FORMER,
    ENDS,
    End,
    EndedGroup,
    both_ends,
    code_after,
    create_ended_group,
)
from tests.api.sample_group import RELATIONS, SampleGroup, create_sample_group
from tests.api.state_snapshot import take_snapshot


@pytest.fixture(scope="module", params=ENDS.values(), ids=ENDS.keys())
async def ended(request: pytest.FixtureRequest, process: Api) -> EndedGroup:
    return await create_ended_group(process, request.param, name="The group")


async def read_group_fields(api: Api, user: str, sample: SampleGroup) -> Json:
    """Read every field that could show the group or its messages."""
    query = """query ($group: ID!, $message: ID!) {
        group(id: $group) { status } conversation(id: $group) { title } node(id: $group) { id }
        messages(conversationId: $group, first: 100) { edges { node { seq } } }
        message(id: $message) { content } one: node(id: $message) { id } myGroups { edges { node { id } } } }"""
    return await api.data(user, query, group=sample.group, message=sample.message)


async def test_nothing_of_a_dismissed_group_is_found(api: Api) -> None:
    ended = await create_ended_group(api, ENDS["dismissed"])
    for relation in RELATIONS:
        fields = await read_group_fields(api, getattr(ended.sample, relation), ended.sample)
        assert fields.pop("myGroups") == {"edges": []}, relation
        assert set(fields.values()) == {None}, relation


async def test_a_dissolved_group_stays_readable_for_its_former_members(api: Api) -> None:
    ended = await create_ended_group(api, ENDS["dissolved"])
    for relation in RELATIONS:
        user = getattr(ended.sample, relation)
        fields = await read_group_fields(api, user, ended.sample)
        assert fields.pop("myGroups") == {"edges": []}, relation
        if relation == "outsider":
            assert set(fields.values()) == {None}, relation
            continue
        assert fields["group"] == {"status": "DISSOLVED"}
        assert fields["message"] == {"content": "for everybody"}
        assert await api.history(user, ended.sample.group) == ended.histories[relation]
        group = await api.own_group(user, ended.sample.group)
        last = ended.histories[relation][-1]["seq"]
        assert group["visibleRanges"] == [{"fromSeq": 1, "toSeq": last}]
        assert group["lastMessage"]["seq"] == last
        assert (group["memberCount"], group["members"], group["viewerRole"]) == (0, None, None)
        assert group["owner"] == {"id": ended.sample.owner}


@pytest.mark.parametrize("relation", CURRENT_AND_FORMER)
async def test_the_sessions_of_an_ended_group_are_invalid(api: Api, ended: EndedGroup, relation: str) -> None:
    user, before = getattr(ended.sample, relation), ended.sessions[relation]
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


@pytest.mark.parametrize("relation", CURRENT_AND_FORMER)
async def test_the_invalid_session_still_describes_the_group(api: Api, ended: EndedGroup, relation: str) -> None:
    query = """query ($id: ID!) { session(conversationId: $id) { lastMessage { content } conversation { ... on Group {
        id name title status memberCount viewerRole owner { id } members { edges { node { role } } }
        visibleRanges { fromSeq toSeq } lastMessage { content } session { status } } } } }"""
    session = (await api.data(getattr(ended.sample, relation), query, id=ended.sample.group))["session"]
    fields = session["conversation"]
    assert (fields["id"], fields["name"], fields["title"]) == (ended.sample.group, "The group", "The group")
    assert (fields["status"], fields["owner"]) == ("DISSOLVED", {"id": ended.sample.owner})
    assert (fields["memberCount"], fields["members"], fields["viewerRole"]) == (0, None, None)
    assert fields["session"] == {"status": "INVALID"}
    if ended.end is ENDS["dismissed"]:
        assert (fields["visibleRanges"], fields["lastMessage"], session["lastMessage"]) == ([], None, None)
    else:
        assert fields["lastMessage"]["content"] == ended.histories[relation][-1]["content"]


async def test_an_outsider_has_no_session_of_an_ended_group(api: Api, ended: EndedGroup) -> None:
    assert await api.session(ended.sample.outsider, ended.sample.group) is None
    assert await api.group(ended.sample.outsider, ended.sample.group) is None


async def test_ended_groups_survive_the_loss_of_the_cache(api: Api, deployments: Deployments) -> None:
    for end in ENDS.values():
        sample = (await create_ended_group(api, end)).sample
        users = [getattr(sample, relation) for relation in RELATIONS]

        async def read_all(users: list[str] = users, sample: SampleGroup = sample) -> list[Json]:
            results = [
                await read_group_fields(api, user, sample) | {"session": await api.session(user, sample.group)}
                for user in users
            ]
            for fields in results:
                if fields["session"] is not None:
                    del fields["session"]["activeTs"]
            return results

        before = await read_all()
        deployments.flush_redis("main")
        assert await read_all() == before


@both_ends
async def test_current_and_former_members_receive_one_event_about_the_end(api: Api, other_api: Api, end: End) -> None:
    sample = await create_sample_group(api)
    users = [getattr(sample, relation) for relation in CURRENT_AND_FORMER]
    session_listeners = {(user, p): await p.listen(user, LIVE_SESSIONS) for user in users for p in (api, other_api)}
    message_listeners = [await process.listen(user) for user in users for process in (api, other_api)]
    message_listeners += [await api.listen(user, id=sample.group) for user in users]
    outsider_listeners = [await api.listen(sample.outsider), await api.listen(sample.outsider, LIVE_SESSIONS)]
    await end(api, sample.owner, sample.group)
    for (user, process), device in session_listeners.items():
        event = await device.next()
        assert (event["reason"], event["totalUnread"], event["reset"]) == ("DELETE", 0, False)
        assert event["sessions"] == [await process.own_session(user, sample.group)]
    await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
    for device in (*message_listeners, *session_listeners.values(), *outsider_listeners):
        await device.expect_no_event(0.02)


@both_ends
async def test_devices_that_were_away_receive_the_end_from_their_cursors(api: Api, other_api: Api, end: End) -> None:
    sample = await create_sample_group(api)
    users = [getattr(sample, relation) for relation in CURRENT_AND_FORMER]
    cursors = [(await api.data(user, SYNC))["syncSessions"]["cursor"] for user in users]
    await end(api, sample.owner, sample.group)
    for user, cursor in zip(users, cursors, strict=True):
        session = await api.own_session(user, sample.group)
        for process in (api, other_api):
            delta = (await process.data(user, SYNC, since=cursor))["syncSessions"]
            assert (delta["sessions"], delta["totalUnread"], delta["reset"]) == ([session], 0, False)
            relation = await (await process.subscribe(user, LIVE_SESSIONS, since=cursor)).next()
            assert (relation["reason"], relation["sessions"]) == ("CATCH_UP", [session])


async def test_missed_messages_are_replayed_for_dissolved_groups_only(api: Api) -> None:
    for end in ENDS.values():
        sample = await create_sample_group(api)
        device = await api.listen(sample.admin)
        await api.send(sample.owner, sample.group, "seen")
        cursor = (await device.next())["cursor"]
        await api.send(sample.owner, sample.group, "missed")
        await end(api, sample.owner, sample.group)
        resumed = await api.subscribe(sample.admin, LIVE_MESSAGES, since=cursor)
        events = [await resumed.next()]
        while events[-1]["__typename"] != "CaughtUp":
            events.append(await resumed.next())
        replayed = [event["message"]["content"] for event in events if event["__typename"] == "MessageCreated"]
        assert replayed == ([] if end is ENDS["dismissed"] else ["missed"])
        await resumed.expect_no_event(0.02)


async def test_a_subscription_to_an_ended_group_receives_nothing(api: Api, ended: EndedGroup) -> None:
    for relation in CURRENT_AND_FORMER:
        user = getattr(ended.sample, relation)
        if ended.end is ENDS["dissolved"]:
            await (await api.listen(user, id=ended.sample.group)).expect_no_event(0.01)
            continue
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(user, LIVE_MESSAGES, id=ended.sample.group)
        assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")


async def test_every_operation_on_an_ended_group_is_refused(api: Api, ended: EndedGroup) -> None:
    sample, group = ended.sample, ended.sample.group
    operations: list[tuple[str, Json]] = [
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
    snapshot = await take_snapshot(api, group, *sample.users)
    for relation in RELATIONS:
        for query, variables in operations:
            refusal = await api.expect_refusal(getattr(sample, relation), query, **variables)
            assert refusal.code == ("NOT_FOUND" if relation == "outsider" else code_after(ended.end)), (relation, query)
    await snapshot.assert_unchanged()


@both_ends
async def test_the_invalid_session_can_be_changed_like_any_other(api: Api, deployments: Deployments, end: End) -> None:
    sample = (await create_ended_group(api, end)).sample
    for user in (sample.member, sample.left, sample.removed):
        await api.mark_read(user, sample.group)
        await api.mute(user, sample.group)
        await api.pin(user, sample.group, 3)
        await api.set_unread(user, sample.group)
        await api.assign(user, "work", sample.group)
        session = await api.own_session(user, sample.group)
        assert (session["status"], session["unreadStatus"], session["unreadCount"]) == ("INVALID", False, 0)
        assert await api.sessions(user) == await api.sessions(user, category="work") == []
        hard_deleted = await api.delete(user, sample.group, hard=True)
        assert (
            hard_deleted["status"],
            hard_deleted["priority"],
            hard_deleted["muteStatus"],
            hard_deleted["categoryId"],
        ) == ("INVALID", 0, False, None)
        await api.wait_until_idle()
        deployments.flush_redis("main")
        after_loss = await api.own_session(user, sample.group)
        assert {**after_loss, "activeTs": 0} == {**hard_deleted, "activeTs": 0}
        assert await api.sessions(user) == []


async def test_ids_of_ended_groups_are_never_reused(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    groups = []
    for number in range(6):
        groups.append(await api.create_group(alice, bob, carol, name=f"{number}"))
        await (api.dismiss if number % 2 else api.dissolve)(alice, groups[-1])
    assert len(set(groups)) == 6
    assert [await api.group(alice, group) is None for group in groups] == [False, True] * 3


async def test_the_idempotency_key_does_not_revive_a_dismissed_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, idempotencyKey="k")
    await api.dismiss(alice, group)
    query = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }"
    groups = {"name": "Group", "memberIds": [bob, carol], "idempotencyKey": "k"}
    response = await api.run(alice, query, input=groups)
    codes = [error["extensions"]["code"] for error in response.get("errors", ())]
    assert codes in ([], ["NOT_FOUND"])
    assert codes or response["data"]["createGroup"]["id"] != group
    assert (await api.own_session(bob, group))["status"] == "INVALID"
    assert await api.group(alice, group) is None
