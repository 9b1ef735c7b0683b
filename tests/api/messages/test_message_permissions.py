"""Who may revise a message of a group, and who acknowledges what: by part in the group."""

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
"""How editing and recalling the member's message end for everybody; None where they may."""


@pytest.fixture(scope="module")
async def sample(process: Api) -> SampleGroup:
    return await create_sample_group(process)


@pytest.mark.parametrize(("query", "which"), [(EDIT, 0), (RECALL, 1)], ids=["editing", "recalling"])
async def test_who_may_not_revise_a_message_is_told_why_and_nothing_happens(
    api: Api, sample: SampleGroup, query: str, which: int
) -> None:
    watching = await take_snapshot(api, sample.group, *sample.users)
    for part, outcomes in OUTCOMES.items():
        if outcomes[which] is not None:
            refusal = await api.expect_refusal(getattr(sample, part), query, id=sample.message)
            assert refusal.code == outcomes[which], part
    await watching.assert_unchanged()


@pytest.mark.parametrize(
    ("query", "part"), [(EDIT, "member"), (RECALL, "member"), (RECALL, "owner"), (RECALL, "admin")]
)
async def test_who_may_revise_a_message_can(api: Api, query: str, part: str) -> None:
    sample = await create_sample_group(api)
    assert await api.data(getattr(sample, part), query, id=sample.message)


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_what_one_can_not_see_is_not_found_whoever_wrote_it(api: Api, sample: SampleGroup, query: str) -> None:
    watching = await take_snapshot(api, sample.group, *sample.users)
    for who, message in (
        (sample.left, sample.later),
        (sample.removed, sample.later),
        (sample.owner, "m_1"),
        (sample.owner, ""),
    ):
        assert (await api.expect_refusal(who, query, id=message)) == Refusal("NOT_FOUND", "messageId")
    await watching.assert_unchanged()


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_who_is_gone_revises_not_even_what_they_wrote(api: Api, query: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    by_bob = (await api.send(bob, group, "mine"))["message"]["id"]
    by_carol = (await api.send(carol, group, "mine"))["message"]["id"]
    await api.leave(bob, group)
    await api.remove(alice, group, carol)
    watching = await take_snapshot(api, group, alice, bob, carol, dave)
    for who, message in ((bob, by_bob), (carol, by_carol)):
        assert (await api.expect_refusal(who, query, id=message)).code == "NOT_A_MEMBER"
    await watching.assert_unchanged()
    # Who comes back may again.
    await api.invite(alice, group, bob)
    await api.data(bob, query, id=by_bob)


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_what_the_system_says_nobody_revises(api: Api, sample: SampleGroup, query: str) -> None:
    told: Json = (await api.history(sample.owner, sample.group))[1]
    assert told["contentType"] == "SYSTEM"
    watching = await take_snapshot(api, sample.group, *sample.users)
    for who in sample.members:
        assert (await api.expect_refusal(who, query, id=told["id"])).code == "INVALID_INPUT"
    await watching.assert_unchanged()


async def test_an_outsider_acknowledges_nothing(api: Api, sample: SampleGroup) -> None:
    watching = await take_snapshot(api, sample.group, *sample.users)
    assert await api.expect_refusal(sample.outsider, ACK, id=sample.group) == Refusal("NOT_FOUND", "conversationId")
    await watching.assert_unchanged()


@pytest.mark.parametrize("part", [part for part in RELATIONS if part != "outsider"])
async def test_whoever_was_in_it_acknowledges_what_they_had(api: Api, part: str) -> None:
    sample = await create_sample_group(api)
    who = getattr(sample, part)
    assert (await api.data(who, ACK, id=sample.group))["ackDelivered"]["deliveredSeq"] >= 1
