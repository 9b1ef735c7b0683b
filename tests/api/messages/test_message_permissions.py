"""Permission to edit, recall and acknowledge messages of a group, by relation to the group."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Json, Refusal
from tests.api.sample_group import RELATIONS, SampleGroup, create_sample_group
from tests.api.state_snapshot import take_snapshot

EDIT = 'mutation ($id: ID!) { editMessage(messageId: $id, content: "changed") { id content } }'
RECALL = "mutation ($id: ID!) { recallMessage(messageId: $id) { id state content } }"
ACK = "mutation ($id: ID!) { ackDelivered(conversationId: $id, upToSeq: 1) { id deliveredSeq } }"

OUTCOMES = {
    "owner": ("FORBIDDEN", None),
    "admin": ("FORBIDDEN", None),
    "member": (None, None),
    "other_member": ("FORBIDDEN", "FORBIDDEN"),
    "other_admin": ("FORBIDDEN", None),
    "left": ("NOT_A_MEMBER", "NOT_A_MEMBER"),
    "removed": ("NOT_A_MEMBER", "NOT_A_MEMBER"),
    "outsider": ("NOT_FOUND", "NOT_FOUND"),
}
"""Outcome of editing and recalling the member's message for each user: None if permitted, else the error code."""


@pytest.fixture(scope="module")
async def sample(process: Api) -> SampleGroup:
    return await create_sample_group(process)


@pytest.mark.parametrize(("query", "index"), [(EDIT, 0), (RECALL, 1)], ids=["editing", "recalling"])
async def test_revising_without_permission_is_refused_and_changes_nothing(
    api: Api, sample: SampleGroup, query: str, index: int
) -> None:
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    for relation, outcomes in OUTCOMES.items():
        if outcomes[index] is not None:
            refusal = await api.expect_refusal(getattr(sample, relation), query, id=sample.message)
            assert refusal.code == outcomes[index], relation
    await snapshot.assert_unchanged()


@pytest.mark.parametrize(
    ("query", "relation"), [(EDIT, "member"), (RECALL, "member"), (RECALL, "owner"), (RECALL, "admin")]
)
async def test_permitted_users_can_revise_a_message(api: Api, query: str, relation: str) -> None:
    sample = await create_sample_group(api)
    assert await api.data(getattr(sample, relation), query, id=sample.message)


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_an_invisible_message_is_not_found(api: Api, sample: SampleGroup, query: str) -> None:
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    for user, message in (
        (sample.left, sample.later),
        (sample.removed, sample.later),
        (sample.owner, "m_1"),
        (sample.owner, ""),
    ):
        assert (await api.expect_refusal(user, query, id=message)) == Refusal("NOT_FOUND", "messageId")
    await snapshot.assert_unchanged()


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_former_members_cannot_revise_their_own_messages(api: Api, query: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    bobs_message = (await api.send(bob, group, "mine"))["message"]["id"]
    carols_message = (await api.send(carol, group, "mine"))["message"]["id"]
    await api.leave(bob, group)
    await api.remove(alice, group, carol)
    snapshot = await take_snapshot(api, group, alice, bob, carol, dave)
    for user, message in ((bob, bobs_message), (carol, carols_message)):
        assert (await api.expect_refusal(user, query, id=message)).code == "NOT_A_MEMBER"
    await snapshot.assert_unchanged()
    # A member who joins again may revise their messages again.
    await api.invite(alice, group, bob)
    await api.data(bob, query, id=bobs_message)


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_system_messages_cannot_be_revised(api: Api, sample: SampleGroup, query: str) -> None:
    system_message: Json = (await api.history(sample.owner, sample.group))[1]
    assert system_message["contentType"] == "SYSTEM"
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    for user in sample.members:
        assert (await api.expect_refusal(user, query, id=system_message["id"])).code == "INVALID_INPUT"
    await snapshot.assert_unchanged()


async def test_an_outsider_cannot_acknowledge(api: Api, sample: SampleGroup) -> None:
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    assert await api.expect_refusal(sample.outsider, ACK, id=sample.group) == Refusal("NOT_FOUND", "conversationId")
    await snapshot.assert_unchanged()


@pytest.mark.parametrize("relation", [relation for relation in RELATIONS if relation != "outsider"])
async def test_current_and_former_members_can_acknowledge(api: Api, relation: str) -> None:
    sample = await create_sample_group(api)
    user = getattr(sample, relation)
    assert (await api.data(user, ACK, id=sample.group))["ackDelivered"]["deliveredSeq"] >= 1
