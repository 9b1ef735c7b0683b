"""Who may revise a message of a group, and who acknowledges what: by part in the group."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Json, Refusal
from tests.api.group_roles import PARTS, Cast, perform
from tests.api.unchanged_state import witness

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
async def cast(process: Api) -> Cast:
    return await perform(process)


@pytest.mark.parametrize(("query", "which"), [(EDIT, 0), (RECALL, 1)], ids=["editing", "recalling"])
async def test_who_may_not_revise_a_message_is_told_why_and_nothing_happens(
    api: Api, cast: Cast, query: str, which: int
) -> None:
    watching = await witness(api, cast.group, *cast.people)
    for part, outcomes in OUTCOMES.items():
        if outcomes[which] is not None:
            refusal = await api.refusal(getattr(cast, part), query, id=cast.message)
            assert refusal.code == outcomes[which], part
    await watching.nothing_happened()


@pytest.mark.parametrize(
    ("query", "part"), [(EDIT, "member"), (RECALL, "member"), (RECALL, "owner"), (RECALL, "admin")]
)
async def test_who_may_revise_a_message_can(api: Api, query: str, part: str) -> None:
    cast = await perform(api)
    assert await api.data(getattr(cast, part), query, id=cast.message)


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_what_one_can_not_see_is_not_found_whoever_wrote_it(api: Api, cast: Cast, query: str) -> None:
    watching = await witness(api, cast.group, *cast.people)
    for who, message in ((cast.left, cast.later), (cast.removed, cast.later), (cast.owner, "m_1"), (cast.owner, "")):
        assert (await api.refusal(who, query, id=message)) == Refusal("NOT_FOUND", "messageId")
    await watching.nothing_happened()


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_who_is_gone_revises_not_even_what_they_wrote(api: Api, query: str) -> None:
    alice, bob, carol, dave = await api.people("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    by_bob = (await api.send(bob, group, "mine"))["message"]["id"]
    by_carol = (await api.send(carol, group, "mine"))["message"]["id"]
    await api.leave(bob, group)
    await api.remove(alice, group, carol)
    watching = await witness(api, group, alice, bob, carol, dave)
    for who, message in ((bob, by_bob), (carol, by_carol)):
        assert (await api.refusal(who, query, id=message)).code == "NOT_A_MEMBER"
    await watching.nothing_happened()
    # Who comes back may again.
    await api.invite(alice, group, bob)
    await api.data(bob, query, id=by_bob)


@pytest.mark.parametrize("query", [EDIT, RECALL], ids=["editing", "recalling"])
async def test_what_the_system_says_nobody_revises(api: Api, cast: Cast, query: str) -> None:
    told: Json = (await api.history(cast.owner, cast.group))[1]
    assert told["contentType"] == "SYSTEM"
    watching = await witness(api, cast.group, *cast.people)
    for who in cast.members:
        assert (await api.refusal(who, query, id=told["id"])).code == "INVALID_INPUT"
    await watching.nothing_happened()


async def test_an_outsider_acknowledges_nothing(api: Api, cast: Cast) -> None:
    watching = await witness(api, cast.group, *cast.people)
    assert await api.refusal(cast.outsider, ACK, id=cast.group) == Refusal("NOT_FOUND", "conversationId")
    await watching.nothing_happened()


@pytest.mark.parametrize("part", [part for part in PARTS if part != "outsider"])
async def test_whoever_was_in_it_acknowledges_what_they_had(api: Api, part: str) -> None:
    cast = await perform(api)
    who = getattr(cast, part)
    assert (await api.data(who, ACK, id=cast.group))["ackDelivered"]["deliveredSeq"] >= 1
