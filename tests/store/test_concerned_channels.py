"""Which channels a change of the policy concerns: elsewhere nothing is judged again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from store.base.ids import ConversationId
from store.base.workspace_ids import role_id
from store.workspaces.changing.concerned_channels import channels_concerned, channels_of_member
from store.workspaces.permissions import NOTHING, Permission
from store.workspaces.policy import ChannelKind, MemberFacts, Overwrite, Overwrites, Policy, Role
from tests.store.workspaces import (
    ADMIN,
    ALICE,
    BOB,
    CAROL,
    CHANNEL_IDS,
    DAVE,
    EVERYONE,
    GENERAL,
    GUIDE,
    OLD,
    STAFF,
    TRAILS,
    W,
    sample_policy,
)


def _with_role(policy: Policy, role: Role) -> dict[Any, Role]:
    return dict(policy.roles) | {role.id: role}


def test_the_channels_that_a_change_concerns() -> None:
    before = sample_policy()

    def concerned(**fields: Any) -> object:
        return channels_concerned(before, replace(before, **fields))

    category = before.categories[TRAILS]
    everyone, guide = before.everyone, before.roles[GUIDE]
    without_overwrites = {TRAILS: replace(category, overwrites=Overwrites())}
    silent = replace(before, roles=_with_role(before, replace(guide, permissions=NOTHING)))
    assert concerned() == concerned(roles=_with_role(before, replace(guide, name="x", position=3))) == frozenset()
    assert concerned(owner=BOB) == set(CHANNEL_IDS)
    assert concerned(roles=_with_role(before, replace(everyone, permissions=NOTHING))) == set(CHANNEL_IDS)
    assert concerned(roles={EVERYONE: everyone, ADMIN: before.roles[ADMIN]}) == set(CHANNEL_IDS)
    assert channels_concerned(silent, replace(silent, roles={EVERYONE: everyone, ADMIN: before.roles[ADMIN]})) == set()
    # Nobody has a new role yet.
    assert concerned(roles=_with_role(before, Role(role_id(W, 9), "new", 3, Permission.ADMINISTRATOR))) == frozenset()
    assert concerned(categories={TRAILS: replace(category, name="paths")}) == {OLD}
    assert concerned(categories={TRAILS: replace(category, position=9)}) == {OLD}
    assert concerned(categories=without_overwrites) == concerned(categories={}) == {OLD}

    def with_general(**fields: Any) -> object:
        channels = dict(before.channels) | {GENERAL: replace(before.channels[GENERAL], **fields)}
        return concerned(channels=channels)

    assert with_general(member_count=5) == frozenset()
    for fields in (
        # Other servers show these.
        {"name": "lobby"},
        {"topic": "x"},
        {"position": 8},
        # They judge by these.
        {"kind": ChannelKind.PRIVATE},
        {"is_archived": True},
        {"slow_mode_seconds": 5},
        {"full_history": False},
        {"category": TRAILS},
        {"overwrites": Overwrites({}, {DAVE: Overwrite(deny=Permission.SEND_MESSAGES)})},
    ):
        assert with_general(**fields) == {GENERAL}


def test_the_channels_where_a_change_of_a_member_concerns_rights() -> None:
    policy = sample_policy()
    hidden = Overwrites({EVERYONE: Overwrite(deny=Permission.VIEW_CHANNEL), GUIDE: Overwrite(Permission.VIEW_CHANNEL)})
    channels = {**policy.channels, GENERAL: replace(policy.channels[GENERAL], overwrites=hidden)}
    policy = replace(policy, channels=channels)
    plain, guide = MemberFacts(CAROL, 1), MemberFacts(CAROL, 1, frozenset({GUIDE}))

    def concerned(before: MemberFacts, after: MemberFacts | None) -> object:
        return channels_of_member(policy, policy, before, after, None)

    assert concerned(plain, None) == {STAFF, OLD}
    assert concerned(guide, None) == set(CHANNEL_IDS)
    for private in (frozenset[ConversationId](), frozenset({STAFF})):
        assert channels_of_member(policy, policy, guide, None, private) == {GENERAL, OLD} | private
    assert concerned(plain, replace(plain, nickname="Caro")) == frozenset()
    assert concerned(plain, replace(plain, timed_out_until_ms=9)) == {STAFF, OLD}
    assert concerned(replace(plain, timed_out_until_ms=9), plain) == {STAFF, OLD}
    assert concerned(plain, replace(plain, roles=frozenset({role_id(W, 99)}))) == frozenset()
    # The role lets see GENERAL, and pin messages in STAFF. OLD is archived.
    assert concerned(plain, guide) == concerned(guide, plain) == {GENERAL, STAFF}
    # What a role of the policy after the change gives counts.
    muted = replace(policy, roles=_with_role(policy, replace(policy.roles[GUIDE], permissions=NOTHING)))
    assert channels_of_member(muted, muted, plain, guide, None) == {GENERAL}
    assert channels_of_member(muted, policy, guide, guide, None) == {GENERAL, STAFF}
    assert concerned(MemberFacts(ALICE, 1), None) == set(CHANNEL_IDS)
