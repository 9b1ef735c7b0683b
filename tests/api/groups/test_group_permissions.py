"""Permission of every group mutation by relation to the group; refused mutations change nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from subscriptions.transport.engine import RequestRefused
from tests.api.client import INVITE, LIVE_MESSAGES, SEND, Api, Json, Refusal, parse_refusal, private_id
from tests.api.group_calls import DISMISS, DISSOLVE, LEAVE, REMOVE, SET_ROLE, TRANSFER, UPDATE_GROUP
from tests.api.sample_group import RELATIONS, SampleGroup, create_sample_group
from tests.api.session_calls import ASSIGN, DELETE, MARK_READ, MUTE, PIN, SET_UNREAD
from tests.api.state_snapshot import take_snapshot

FORMER = ("left", "removed")
NOT_PERMITTED = "FORBIDDEN"


@dataclass(frozen=True)
class Mutation:
    """A mutation and its outcome for owner, admin and member: None if permitted, else code and field."""

    query: str
    owner: str | None
    admin: str | None
    member: str | None
    variables: Json = field(default_factory=dict)
    outsider: str = "NOT_FOUND groupId"

    def outcome(self, relation: str) -> str | None:
        if relation in FORMER:
            return "NOT_A_MEMBER"
        outcome: str | None = getattr(self, relation)
        return outcome


def about_user(query: str, user: str, outcomes: tuple[str | None, str | None, str | None], **fields: str) -> Mutation:
    return Mutation(query, *outcomes, variables={"id": "@group", "user": user} | fields)


def update(outcomes: tuple[str | None, str | None, str | None], **fields: str | None) -> Mutation:
    return Mutation(UPDATE_GROUP, *outcomes, variables={"id": "@group", "input": fields})


def send(outcomes: tuple[str | None, str | None, str | None], **fields: bool) -> Mutation:
    message = {"conversationId": "@group", "content": "hello"} | fields
    return Mutation(SEND, *outcomes, variables={"input": message}, outsider="NOT_FOUND conversationId")


GROUP_ONLY = {"id": "@group"}
OWNER_ONLY = (None, NOT_PERMITTED, NOT_PERMITTED)
ADMINS_TOO = (None, None, NOT_PERMITTED)
ALL = (None, None, None)
NO_MEMBER = "NOT_A_MEMBER userId"
CALLER_AS_USER = "INVALID_INPUT userId"

MUTATIONS = {
    "renaming": update(ADMINS_TOO, name="Another name"),
    "changing the avatar": update(ADMINS_TOO, avatarUrl="https://example.org/b.png"),
    "opening the history": update(ADMINS_TOO, historyVisibility="FULL"),
    "updating nothing": update(ADMINS_TOO),
    "inviting": Mutation(INVITE, *ALL, variables={"id": "@group", "users": ["@outsider"]}),
    "inviting members": Mutation(INVITE, *ALL, variables={"id": "@group", "users": ["@other_member"]}),
    "inviting former members": Mutation(INVITE, *ALL, variables={"id": "@group", "users": ["@left", "@removed"]}),
    "removing a member": about_user(REMOVE, "@other_member", ADMINS_TOO),
    "removing an admin": about_user(REMOVE, "@other_admin", OWNER_ONLY),
    "removing the owner": about_user(REMOVE, "@owner", (CALLER_AS_USER, NOT_PERMITTED, NOT_PERMITTED)),
    "removing oneself": about_user(REMOVE, "@self", (CALLER_AS_USER, CALLER_AS_USER, NOT_PERMITTED)),
    "removing a member who left": about_user(REMOVE, "@left", (NO_MEMBER, NO_MEMBER, NOT_PERMITTED)),
    "removing a removed member": about_user(REMOVE, "@removed", (NO_MEMBER, NO_MEMBER, NOT_PERMITTED)),
    "removing an outsider": about_user(REMOVE, "@outsider", (NO_MEMBER, NO_MEMBER, NOT_PERMITTED)),
    "removing an unknown user": about_user(REMOVE, "nobody", (NO_MEMBER, NO_MEMBER, NOT_PERMITTED)),
    "removing an invalid id": about_user(REMOVE, "no id", (NO_MEMBER, NO_MEMBER, NOT_PERMITTED)),
    "leaving": Mutation(LEAVE, "OWNER_CANNOT_LEAVE", None, None, GROUP_ONLY),
    "transferring to a member": about_user(TRANSFER, "@other_member", OWNER_ONLY),
    "transferring to an admin": about_user(TRANSFER, "@other_admin", OWNER_ONLY),
    "transferring to oneself": about_user(TRANSFER, "@self", (CALLER_AS_USER, NOT_PERMITTED, NOT_PERMITTED)),
    "transferring to a former member": about_user(TRANSFER, "@left", (NO_MEMBER, NOT_PERMITTED, NOT_PERMITTED)),
    "transferring to an outsider": about_user(TRANSFER, "@outsider", (NO_MEMBER, NOT_PERMITTED, NOT_PERMITTED)),
    "transferring to an unknown user": about_user(TRANSFER, "nobody", (NO_MEMBER, NOT_PERMITTED, NOT_PERMITTED)),
    "promoting": about_user(SET_ROLE, "@other_member", OWNER_ONLY, role="ADMIN"),
    "demoting": about_user(SET_ROLE, "@other_admin", OWNER_ONLY, role="MEMBER"),
    "setting the same role": about_user(SET_ROLE, "@other_member", OWNER_ONLY, role="MEMBER"),
    "making an owner": about_user(
        SET_ROLE, "@other_member", ("INVALID_INPUT role", NOT_PERMITTED, NOT_PERMITTED), role="OWNER"
    ),
    "setting one's own role": about_user(
        SET_ROLE, "@self", (CALLER_AS_USER, NOT_PERMITTED, NOT_PERMITTED), role="ADMIN"
    ),
    "setting the role of a removed member": about_user(
        SET_ROLE, "@removed", (NO_MEMBER, NOT_PERMITTED, NOT_PERMITTED), role="ADMIN"
    ),
    "setting the role of an outsider": about_user(
        SET_ROLE, "@outsider", (NO_MEMBER, NOT_PERMITTED, NOT_PERMITTED), role="MEMBER"
    ),
    "setting the role of an unknown user": about_user(
        SET_ROLE, "nobody", (NO_MEMBER, NOT_PERMITTED, NOT_PERMITTED), role="ADMIN"
    ),
    "dismissing": Mutation(DISMISS, *OWNER_ONLY, variables=GROUP_ONLY),
    "dissolving": Mutation(DISSOLVE, *OWNER_ONLY, variables=GROUP_ONLY, outsider="NOT_FOUND conversationId"),
    "writing": send(ALL),
    "mentioning all": send(ADMINS_TOO, mentionAll=True),
}
KEEP_MEMBERS = [
    name for name, mutation in MUTATIONS.items() if mutation.query in (UPDATE_GROUP, SEND) or name == "inviting members"
]
"""Mutations that change no membership and no role: a user may make them one after the other."""
ALLOWED = [
    pytest.param(mutation, relation, id=f"{relation}-{name}")
    for name, mutation in MUTATIONS.items()
    for relation in ("owner", "admin", "member")
    if mutation.outcome(relation) is None and name not in KEEP_MEMBERS
]


@pytest.fixture(scope="module")
async def sample(process: Api) -> SampleGroup:
    return await create_sample_group(process)


@pytest.mark.parametrize("relation", RELATIONS)
async def test_a_mutation_without_permission_changes_nothing(api: Api, sample: SampleGroup, relation: str) -> None:
    """One comparison after all refused mutations of a user: no mutation here undoes another."""
    user = getattr(sample, relation)
    outcomes = {
        name: outcome for name, mutation in MUTATIONS.items() if (outcome := mutation.outcome(relation)) is not None
    }
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    for name, outcome in outcomes.items():
        mutation = MUTATIONS[name]
        refusal = await api.expect_refusal(user, mutation.query, **sample.fill_in(mutation.variables, user))
        code, _, field_name = outcome.partition(" ")
        assert (refusal.code, refusal.retryable) == (code, False), name
        assert not field_name or refusal.field == field_name, name
    await snapshot.assert_unchanged()


@pytest.mark.parametrize(("mutation", "relation"), ALLOWED)
async def test_a_mutation_with_permission_succeeds(api: Api, mutation: Mutation, relation: str) -> None:
    sample = await create_sample_group(api)
    user = getattr(sample, relation)
    assert await api.data(user, mutation.query, **sample.fill_in(mutation.variables, user))


@pytest.mark.parametrize("relation", ["owner", "admin", "member"])
async def test_mutations_with_permission_that_keep_the_members_succeed(api: Api, relation: str) -> None:
    sample = await create_sample_group(api)
    user = getattr(sample, relation)
    for mutation in (MUTATIONS[name] for name in KEEP_MEMBERS):
        if mutation.outcome(relation) is None:
            assert await api.data(user, mutation.query, **sample.fill_in(mutation.variables, user))


def test_the_table_refuses_every_mutation_to_some_relation() -> None:
    for relation in RELATIONS:
        assert any(mutation.outcome(relation) is not None for mutation in MUTATIONS.values()), relation
    for name, mutation in MUTATIONS.items():
        assert {relation for relation in RELATIONS if mutation.outcome(relation) is not None} >= {
            *FORMER,
            "outsider",
        }, name


GROUP_MUTATIONS = {
    name: mutation
    for name, mutation in MUTATIONS.items()
    if mutation.variables.get("id") == "@group" and mutation.query is not DISSOLVE
}


async def test_ids_of_no_group_are_not_found(api: Api, sample: SampleGroup) -> None:
    await api.send(sample.owner, sample.outsider, subBiz="shop")
    await api.send(sample.owner, sample.outsider)
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    invalid = ("g_1", "", sample.group.upper(), sample.group[:-1], f"{sample.group} ", "g_", "c_1", "w_1", "b_shop")
    ids = (*invalid, private_id(sample.owner, sample.outsider), sample.owner, "\x00", "\ud800")
    for name, mutation in GROUP_MUTATIONS.items():
        for id_ in ids:
            variables = sample.fill_in(mutation.variables, sample.owner) | {"id": id_}
            refusal = await api.expect_refusal(sample.owner, mutation.query, **variables)
            assert refusal == Refusal("NOT_FOUND", "groupId"), (name, ascii(id_))
    await snapshot.assert_unchanged()


async def test_invalid_arguments_are_refused_before_permissions_are_checked(api: Api, sample: SampleGroup) -> None:
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    for relation in RELATIONS:
        user = getattr(sample, relation)
        for invalid in ({"name": ""}, {"name": "x" * 101}, {"avatarUrl": "x"}):
            refusal = await api.expect_refusal(user, UPDATE_GROUP, id=sample.group, input=invalid)
            assert refusal == Refusal("INVALID_INPUT", *invalid), (relation, invalid)
        assert await api.expect_send_refusal(user, sample.group, "") == Refusal("INVALID_INPUT", "content"), relation
    await snapshot.assert_unchanged()


SESSION_MUTATIONS: dict[str, tuple[str, Json]] = {
    "reading": (MARK_READ, {"id": "@group"}),
    "muting": (MUTE, {"id": "@group", "muted": True}),
    "pinning": (PIN, {"id": "@group"}),
    "marking unread": (SET_UNREAD, {"id": "@group"}),
    "assigning": (ASSIGN, {"ids": ["@group"], "category": "work"}),
    "deleting": (DELETE, {"id": "@group", "hard": True}),
}


async def test_an_outsider_has_no_session_to_change(api: Api, sample: SampleGroup) -> None:
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    for name, (query, variables) in SESSION_MUTATIONS.items():
        refusal = await api.expect_refusal(sample.outsider, query, **sample.fill_in(variables, sample.outsider))
        assert refusal.code == "NOT_FOUND", name
        assert refusal.field in ("conversationId", "conversationIds"), name
    await snapshot.assert_unchanged()


@pytest.mark.parametrize("relation", ["left", "removed", "other_member"])
async def test_former_members_can_change_only_their_own_session(api: Api, relation: str) -> None:
    sample = await create_sample_group(api)
    user = getattr(sample, relation)
    others = [other for other in sample.users if other != user]
    snapshot = [await api.session(other, sample.group) for other in others]
    groups = [await api.group(other, sample.group) for other in others]
    for name, (query, variables) in SESSION_MUTATIONS.items():
        before = await api.own_session(user, sample.group)
        await api.data(user, query, **sample.fill_in(variables, user))
        after = await api.own_session(user, sample.group)
        assert after["activeTs"] > before["activeTs"], name
        assert after["writeSeq"] == before["writeSeq"], name
        await api.wait_until_idle()
        assert [await api.session(other, sample.group) for other in others] == snapshot, name
        assert [await api.group(other, sample.group) for other in others] == groups, name


BY_EVERY_FIELD = """query ($group: ID!, $message: ID!, $later: ID!) {
    group(id: $group) { id } conversation(id: $group) { id } whole: node(id: $group) { id }
    messages(conversationId: $group, first: 100) { edges { node { id } } } session(conversationId: $group) { status }
    message(id: $message) { id } one: node(id: $message) { id }
    later: message(id: $later) { id } laterOne: node(id: $later) { id } }"""


@pytest.mark.parametrize("relation", RELATIONS)
async def test_invisible_objects_are_null_in_every_query(api: Api, sample: SampleGroup, relation: str) -> None:
    user = getattr(sample, relation)
    fields = await api.data(user, BY_EVERY_FIELD, group=sample.group, message=sample.message, later=sample.later)
    messages = fields.pop("messages")
    if relation == "outsider":
        assert messages is None
        assert set(fields.values()) == {None}
        return
    later_fields = fields.pop("later"), fields.pop("laterOne")
    assert all(fields.values())
    assert fields["session"] == {"status": "ACTIVE"}
    history = [edge["node"]["id"] for edge in messages["edges"]]
    assert sample.message in history
    is_former = relation in FORMER
    assert (sample.later not in history) is is_former
    assert later_fields == ((None, None) if is_former else ({"id": sample.later}, {"id": sample.later}))


@pytest.mark.parametrize("relation", RELATIONS)
async def test_only_members_see_the_members_and_their_own_role(api: Api, sample: SampleGroup, relation: str) -> None:
    user = getattr(sample, relation)
    fields = await api.group(user, sample.group)
    groups = await api.my_groups(user)
    if relation == "outsider":
        assert (fields, groups) == (None, [])
        return
    assert fields is not None
    # Creating a group is no message: seq 1 is the member's, 2 and 3 are the SYSTEM messages about the former members.
    member_count = {"left": 6}.get(relation, 5)
    assert (fields["memberCount"], fields["owner"], fields["status"]) == (member_count, {"id": sample.owner}, "ACTIVE")
    if relation in FORMER:
        last = {"left": 1, "removed": 2}[relation]
        assert (fields["members"], fields["viewerRole"], groups) == (None, None, [])
        assert fields["visibleRanges"] == [{"fromSeq": 1, "toSeq": last}]
        assert fields["lastMessage"]["seq"] == last
    else:
        assert {edge["node"]["user"]["id"] for edge in fields["members"]["edges"]} == {*sample.members}
        assert (fields["viewerRole"], groups) == (relation.upper(), [sample.group])
        assert fields["visibleRanges"] == [{"fromSeq": 1, "toSeq": None}]


@pytest.mark.parametrize("relation", RELATIONS)
async def test_only_current_and_former_members_may_subscribe_to_a_group(
    api: Api, sample: SampleGroup, relation: str
) -> None:
    user = getattr(sample, relation)
    if relation == "outsider":
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(user, LIVE_MESSAGES, id=sample.group)
        assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")
        return
    device = await api.listen(user, id=sample.group)
    sent = (await api.send(sample.member, sample.group, "live"))["message"]
    if relation in FORMER:
        await device.expect_no_event(0.05)
    else:
        assert (await device.next())["message"]["id"] == sent["id"]
