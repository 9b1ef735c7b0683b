"""Who may do what in a group, and what is left as it was where somebody may not."""

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
NO_RIGHT = "FORBIDDEN"


@dataclass(frozen=True)
class Deed:
    """A mutation, and how it ends for the owner, an admin, a member: None where they may, else code and field."""

    query: str
    owner: str | None
    admin: str | None
    member: str | None
    variables: Json = field(default_factory=dict)
    outsider: str = "NOT_FOUND groupId"

    def outcome(self, part: str) -> str | None:
        if part in FORMER:
            return "NOT_A_MEMBER"
        found: str | None = getattr(self, part)
        return found


def on_user(query: str, user: str, outcomes: tuple[str | None, str | None, str | None], **more: str) -> Deed:
    return Deed(query, *outcomes, variables={"id": "@group", "user": user} | more)


def update(outcomes: tuple[str | None, str | None, str | None], **fields: str | None) -> Deed:
    return Deed(UPDATE_GROUP, *outcomes, variables={"id": "@group", "input": fields})


def send(outcomes: tuple[str | None, str | None, str | None], **more: bool) -> Deed:
    message = {"conversationId": "@group", "content": "hello"} | more
    return Deed(SEND, *outcomes, variables={"input": message}, outsider="NOT_FOUND conversationId")


WHOLE = {"id": "@group"}
OWNER_ONLY = (None, NO_RIGHT, NO_RIGHT)
ADMINS_TOO = (None, None, NO_RIGHT)
ALL = (None, None, None)
NO_MEMBER = "NOT_A_MEMBER userId"
ONESELF = "INVALID_INPUT userId"

DEEDS = {
    "renaming": update(ADMINS_TOO, name="Another name"),
    "a new picture": update(ADMINS_TOO, avatarUrl="https://example.org/b.png"),
    "opening the history": update(ADMINS_TOO, historyVisibility="FULL"),
    "updating nothing": update(ADMINS_TOO),
    "inviting": Deed(INVITE, *ALL, variables={"id": "@group", "users": ["@outsider"]}),
    "inviting members": Deed(INVITE, *ALL, variables={"id": "@group", "users": ["@other_member"]}),
    "inviting back": Deed(INVITE, *ALL, variables={"id": "@group", "users": ["@left", "@removed"]}),
    "removing a member": on_user(REMOVE, "@other_member", ADMINS_TOO),
    "removing an admin": on_user(REMOVE, "@other_admin", OWNER_ONLY),
    "removing the owner": on_user(REMOVE, "@owner", (ONESELF, NO_RIGHT, NO_RIGHT)),
    "removing oneself": on_user(REMOVE, "@self", (ONESELF, ONESELF, NO_RIGHT)),
    "removing who left": on_user(REMOVE, "@left", (NO_MEMBER, NO_MEMBER, NO_RIGHT)),
    "removing who was removed": on_user(REMOVE, "@removed", (NO_MEMBER, NO_MEMBER, NO_RIGHT)),
    "removing an outsider": on_user(REMOVE, "@outsider", (NO_MEMBER, NO_MEMBER, NO_RIGHT)),
    "removing nobody": on_user(REMOVE, "nobody", (NO_MEMBER, NO_MEMBER, NO_RIGHT)),
    "removing nonsense": on_user(REMOVE, "no id", (NO_MEMBER, NO_MEMBER, NO_RIGHT)),
    "leaving": Deed(LEAVE, "OWNER_CANNOT_LEAVE", None, None, WHOLE),
    "giving it to a member": on_user(TRANSFER, "@other_member", OWNER_ONLY),
    "giving it to an admin": on_user(TRANSFER, "@other_admin", OWNER_ONLY),
    "giving it to oneself": on_user(TRANSFER, "@self", (ONESELF, NO_RIGHT, NO_RIGHT)),
    "giving it to who left": on_user(TRANSFER, "@left", (NO_MEMBER, NO_RIGHT, NO_RIGHT)),
    "giving it to an outsider": on_user(TRANSFER, "@outsider", (NO_MEMBER, NO_RIGHT, NO_RIGHT)),
    "giving it to nobody": on_user(TRANSFER, "nobody", (NO_MEMBER, NO_RIGHT, NO_RIGHT)),
    "promoting": on_user(SET_ROLE, "@other_member", OWNER_ONLY, role="ADMIN"),
    "demoting": on_user(SET_ROLE, "@other_admin", OWNER_ONLY, role="MEMBER"),
    "a role one has": on_user(SET_ROLE, "@other_member", OWNER_ONLY, role="MEMBER"),
    "making an owner": on_user(SET_ROLE, "@other_member", ("INVALID_INPUT role", NO_RIGHT, NO_RIGHT), role="OWNER"),
    "a role for oneself": on_user(SET_ROLE, "@self", (ONESELF, NO_RIGHT, NO_RIGHT), role="ADMIN"),
    "a role for who was removed": on_user(SET_ROLE, "@removed", (NO_MEMBER, NO_RIGHT, NO_RIGHT), role="ADMIN"),
    "a role for an outsider": on_user(SET_ROLE, "@outsider", (NO_MEMBER, NO_RIGHT, NO_RIGHT), role="MEMBER"),
    "a role for nobody": on_user(SET_ROLE, "nobody", (NO_MEMBER, NO_RIGHT, NO_RIGHT), role="ADMIN"),
    "dismissing": Deed(DISMISS, *OWNER_ONLY, variables=WHOLE),
    "dissolving": Deed(DISSOLVE, *OWNER_ONLY, variables=WHOLE, outsider="NOT_FOUND conversationId"),
    "writing": send(ALL),
    "mentioning everybody": send(ADMINS_TOO, mentionAll=True),
}
ALLOWED = [
    pytest.param(deed, part, id=f"{part}-{name}")
    for name, deed in DEEDS.items()
    for part in ("owner", "admin", "member")
    if deed.outcome(part) is None
]


@pytest.fixture(scope="module")
async def sample(process: Api) -> SampleGroup:
    return await create_sample_group(process)


@pytest.mark.parametrize("part", RELATIONS)
async def test_who_may_not_is_told_why_and_nothing_happens(api: Api, sample: SampleGroup, part: str) -> None:
    """One look after all of a part's deeds: whatever one of them did would still show, for nothing here undoes anything."""
    who = getattr(sample, part)
    refused = {name: outcome for name, deed in DEEDS.items() if (outcome := deed.outcome(part)) is not None}
    watching = await take_snapshot(api, sample.group, *sample.users)
    for name, outcome in refused.items():
        deed = DEEDS[name]
        refusal = await api.expect_refusal(who, deed.query, **sample.fill_in(deed.variables, who))
        code, _, named = outcome.partition(" ")
        assert (refusal.code, refusal.retryable) == (code, False), name
        assert not named or refusal.field == named, name
    await watching.assert_unchanged()


@pytest.mark.parametrize(("deed", "part"), ALLOWED)
async def test_who_may_can(api: Api, deed: Deed, part: str) -> None:
    sample = await create_sample_group(api)
    who = getattr(sample, part)
    assert await api.data(who, deed.query, **sample.fill_in(deed.variables, who))


def test_every_deed_is_refused_to_somebody_and_every_part_is_refused_something() -> None:
    for part in RELATIONS:
        assert any(deed.outcome(part) is not None for deed in DEEDS.values()), part
    for name, deed in DEEDS.items():
        assert {part for part in RELATIONS if deed.outcome(part) is not None} >= {*FORMER, "outsider"}, name


GROUP_DEEDS = {
    name: deed for name, deed in DEEDS.items() if deed.variables.get("id") == "@group" and deed.query is not DISSOLVE
}


async def test_what_is_no_group_is_not_found(api: Api, sample: SampleGroup) -> None:
    await api.send(sample.owner, sample.outsider, subBiz="shop")
    await api.send(sample.owner, sample.outsider)
    watching = await take_snapshot(api, sample.group, *sample.users)
    wrong = ("g_1", "", sample.group.upper(), sample.group[:-1], f"{sample.group} ", "g_", "c_1", "w_1", "b_shop")
    others = (*wrong, private_id(sample.owner, sample.outsider), sample.owner, "\x00", "\ud800")
    for name, deed in GROUP_DEEDS.items():
        for other in others:
            variables = sample.fill_in(deed.variables, sample.owner) | {"id": other}
            refusal = await api.expect_refusal(sample.owner, deed.query, **variables)
            assert refusal == Refusal("NOT_FOUND", "groupId"), (name, ascii(other))
    await watching.assert_unchanged()


@pytest.mark.parametrize("part", RELATIONS)
async def test_what_is_wrong_by_itself_is_said_before_anything_about_the_group(
    api: Api, sample: SampleGroup, part: str
) -> None:
    who = getattr(sample, part)
    watching = await take_snapshot(api, sample.group, *sample.users)
    for wrong, named in ({"name": ""}, "name"), ({"name": "x" * 101}, "name"), ({"avatarUrl": "x"}, "avatarUrl"):
        refusal = await api.expect_refusal(who, UPDATE_GROUP, id=sample.group, input=wrong)
        assert refusal == Refusal("INVALID_INPUT", named)
    assert await api.expect_send_refusal(who, sample.group, "") == Refusal("INVALID_INPUT", "content")
    await watching.assert_unchanged()


SESSION_CALLS: dict[str, tuple[str, Json]] = {
    "reading": (MARK_READ, {"id": "@group"}),
    "muting": (MUTE, {"id": "@group", "muted": True}),
    "pinning": (PIN, {"id": "@group"}),
    "marking unread": (SET_UNREAD, {"id": "@group"}),
    "filing": (ASSIGN, {"ids": ["@group"], "category": "work"}),
    "deleting": (DELETE, {"id": "@group", "hard": True}),
}


async def test_an_outsider_has_no_session_to_change(api: Api, sample: SampleGroup) -> None:
    watching = await take_snapshot(api, sample.group, *sample.users)
    for name, (query, variables) in SESSION_CALLS.items():
        refusal = await api.expect_refusal(sample.outsider, query, **sample.fill_in(variables, sample.outsider))
        assert refusal.code == "NOT_FOUND", name
        assert refusal.field in ("conversationId", "conversationIds"), name
    await watching.assert_unchanged()


@pytest.mark.parametrize("part", ["left", "removed", "other_member"])
async def test_who_is_gone_still_changes_their_own_session_and_nobody_else_s(api: Api, part: str) -> None:
    sample = await create_sample_group(api)
    who = getattr(sample, part)
    others = [user for user in sample.users if user != who]
    watching = [await api.session(user, sample.group) for user in others]
    groups = [await api.group(user, sample.group) for user in others]
    for name, (query, variables) in SESSION_CALLS.items():
        before = await api.own_session(who, sample.group)
        await api.data(who, query, **sample.fill_in(variables, who))
        after = await api.own_session(who, sample.group)
        assert after["activeTs"] > before["activeTs"], name
        assert after["writeSeq"] == before["writeSeq"], name
        await api.wait_until_idle()
        assert [await api.session(user, sample.group) for user in others] == watching, name
        assert [await api.group(user, sample.group) for user in others] == groups, name


# --- asking

ASKED = """query ($group: ID!, $message: ID!, $later: ID!) {
    group(id: $group) { id } conversation(id: $group) { id } whole: node(id: $group) { id }
    messages(conversationId: $group, first: 100) { edges { node { id } } } session(conversationId: $group) { status }
    message(id: $message) { id } one: node(id: $message) { id }
    later: message(id: $later) { id } laterOne: node(id: $later) { id } }"""


@pytest.mark.parametrize("part", RELATIONS)
async def test_what_one_may_not_see_is_null_however_one_asks(api: Api, sample: SampleGroup, part: str) -> None:
    who = getattr(sample, part)
    shown = await api.data(who, ASKED, group=sample.group, message=sample.message, later=sample.later)
    messages = shown.pop("messages")
    if part == "outsider":
        assert messages is None
        assert set(shown.values()) == {None}
        return
    late = shown.pop("later"), shown.pop("laterOne")
    assert all(shown.values())
    assert shown["session"] == {"status": "ACTIVE"}
    listed = [edge["node"]["id"] for edge in messages["edges"]]
    assert sample.message in listed
    gone = part in FORMER
    assert (sample.later not in listed) is gone
    assert late == ((None, None) if gone else ({"id": sample.later}, {"id": sample.later}))


@pytest.mark.parametrize("part", RELATIONS)
async def test_a_group_shows_its_members_and_one_s_role_to_members_alone(
    api: Api, sample: SampleGroup, part: str
) -> None:
    who = getattr(sample, part)
    shown = await api.group(who, sample.group)
    groups = await api.my_groups(who)
    if part == "outsider":
        assert (shown, groups) == (None, [])
        return
    assert shown is not None
    # The creation is no message: 1 is the member's, 2 and 3 tell of the two who went.
    assert (shown["memberCount"], shown["owner"], shown["status"]) == (5, {"id": sample.owner}, "ACTIVE")
    if part in FORMER:
        last = {"left": 1, "removed": 2}[part]
        assert (shown["members"], shown["viewerRole"], groups) == (None, None, [])
        assert shown["visibleRanges"] == [{"fromSeq": 1, "toSeq": last}]
        assert shown["lastMessage"]["seq"] == last
    else:
        assert {edge["node"]["user"]["id"] for edge in shown["members"]["edges"]} == {*sample.members}
        assert (shown["viewerRole"], groups) == (part.upper(), [sample.group])
        assert shown["visibleRanges"] == [{"fromSeq": 1, "toSeq": None}]


@pytest.mark.parametrize("part", RELATIONS)
async def test_whoever_was_in_it_may_subscribe_to_it_and_outsiders_are_not_told_that_it_is_there(
    api: Api, sample: SampleGroup, part: str
) -> None:
    who = getattr(sample, part)
    if part == "outsider":
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(who, LIVE_MESSAGES, id=sample.group)
        assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")
        return
    device = await api.listen(who, id=sample.group)
    sent = (await api.send(sample.member, sample.group, "live"))["message"]
    if part in FORMER:
        await device.expect_no_event(0.05)
    else:
        assert (await device.next())["message"]["id"] == sent["id"]
