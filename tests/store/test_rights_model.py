"""Rights are those of a naive model of the contract's sentences."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from store.base.workspace_ids import RoleId, role_id
from store.workspaces.permissions import EVERYTHING, NOTHING, Permission
from store.workspaces.policy import ChannelKind, MemberFacts, Overwrite, Overwrites, Policy, Role
from store.workspaces.rights import explain, rights_in_channel
from store.workspaces.visible_channels import NO_CHANNELS, ChannelVisibility
from tests.store.workspaces import (
    ADMIN,
    ALICE,
    BOB,
    CAROL,
    DAVE,
    EVERYONE,
    GENERAL,
    GUIDE,
    OLD,
    TRAILS,
    W,
    sample_policy,
)

P = Permission
VIEW = P.VIEW_CHANNEL
BASE = VIEW | P.READ_HISTORY | P.SEND_MESSAGES
NOW = 1_795_000_000_000
LATER = NOW + 1
OTHER = role_id(W, 9)
ROLES = (EVERYONE, GUIDE, ADMIN, OTHER)
permissions = st.integers(0, EVERYTHING).map(Permission)
often_nothing = st.one_of(st.just(NOTHING), st.just(NOTHING), permissions, st.sampled_from(list(Permission)))
overwrites = st.builds(
    Overwrites,
    st.dictionaries(st.sampled_from(ROLES), st.builds(Overwrite, often_nothing, often_nothing)),
    st.dictionaries(st.sampled_from([BOB, CAROL]), st.builds(Overwrite, often_nothing, often_nothing)),
)
without_administrator = often_nothing.map(lambda bits: bits & ~P.ADMINISTRATOR)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    kept = draw(st.sets(st.sampled_from(ROLES[1:])))
    positions = draw(st.permutations(range(1, len(kept) + 1)))
    roles = [Role(EVERYONE, "everyone", 0, draw(without_administrator) | draw(st.sampled_from([VIEW, BASE, NOTHING])))]
    for id, position in zip(sorted(kept), positions, strict=True):
        roles.append(Role(id, id, position, draw(st.one_of(without_administrator, without_administrator, permissions))))
    policy = sample_policy()
    channels = {
        channel.id: replace(
            channel,
            kind=draw(st.sampled_from(ChannelKind)),
            category=draw(st.sampled_from([TRAILS, None])),
            inherits_permissions=draw(st.booleans()),
            overwrites=draw(overwrites),
            is_archived=draw(st.booleans()),
        )
        for channel in (policy.channels[GENERAL], policy.channels[OLD])
    }
    category = replace(policy.categories[TRAILS], overwrites=draw(overwrites))
    return replace(policy, roles={role.id: role for role in roles}, categories={TRAILS: category}, channels=channels)


facts = st.builds(
    MemberFacts,
    st.sampled_from([ALICE, BOB, CAROL, DAVE]),
    st.just(1),
    st.frozensets(st.sampled_from(ROLES[1:])),
    timed_out_until_ms=st.sampled_from([0, NOW, LATER]),
)


def naive(policy: Policy, member: MemberFacts, channel_name: str, inside: bool) -> set[str]:
    """The contract's sentences, one after the other, with sets of names."""

    def names(bits: Permission) -> set[str]:
        return {p.name for p in Permission if p.value & bits.value and p.name is not None}

    channel = policy.channels[next(id for id in policy.channels if id == channel_name)]
    everything = names(EVERYTHING)
    if channel.kind.name == "PRIVATE" and not inside:
        return set()
    mine = [role for role in policy.roles.values() if role.id in member.roles or role.id == EVERYONE]
    allowed = set().union(*(names(role.permissions) for role in mine))
    owner = member.user == policy.owner
    if owner or "ADMINISTRATOR" in allowed:
        allowed = everything
    else:
        source = channel.overwrites
        if channel.inherits_permissions and channel.category:
            source = policy.categories[channel.category].overwrites
        of_everyone = [o for id, o in source.roles.items() if id == EVERYONE]
        of_roles = [source.roles[role.id] for role in mine if role.id != EVERYONE and role.id in source.roles]
        of_member = [o for user, o in source.users.items() if user == member.user]
        for level in (of_everyone, of_roles, of_member):
            for overwrite in level:
                allowed -= names(overwrite.deny)
            for overwrite in level:
                allowed |= names(overwrite.allow) - {"ADMINISTRATOR"}
    if member.timed_out_until_ms > NOW and not owner:
        allowed &= {"VIEW_CHANNEL", "READ_HISTORY"}
    of_sending = {"SEND_THREADS", "CREATE_THREADS", "ATTACH_FILES", "EMBED_LINKS", "MENTION_EVERYONE"}
    if channel.is_archived:
        allowed -= {"SEND_MESSAGES", "ADD_REACTIONS", "PIN_MESSAGES"}
    if "VIEW_CHANNEL" not in allowed:
        return set()
    if "SEND_MESSAGES" not in allowed:
        allowed -= of_sending
    return allowed


@given(policies(), facts, st.sampled_from([GENERAL, OLD]), st.booleans())
def test_rights_are_those_of_a_naive_model(policy: Policy, member: MemberFacts, channel: str, inside: bool) -> None:
    found = next(c for c in policy.channels.values() if c.id == channel)
    expected = naive(policy, member, channel, inside)
    for _ in range(2):
        # The second time from memory.
        assert {p.name for p in rights_in_channel(policy, member, found, inside, NOW)} == expected
    reasons = explain(policy, member, found, inside, NOW)
    assert {reason.permission.name for reason in reasons if reason.allowed} == expected


@given(st.lists(policies(), min_size=1, max_size=3), st.sets(st.sampled_from(ROLES[1:])), st.booleans())
def test_visible_channels_are_those_with_the_right_to_view_them(
    versions: list[Policy], roles: set[RoleId], is_in_private: bool
) -> None:
    earlier: ChannelVisibility | None = None
    for policy in versions:
        visibility = ChannelVisibility(policy, earlier)
        memberships = frozenset(policy.channels) if is_in_private else frozenset()
        shared = visibility.find(MemberFacts(DAVE, 1, frozenset(roles)), memberships)
        for user in (ALICE, BOB, CAROL, DAVE):
            facts = MemberFacts(user, 1, frozenset(roles), timed_out_until_ms=LATER)
            expected = {
                channel.id
                for channel in policy.channels.values()
                if VIEW in rights_in_channel(policy, facts, channel, is_in_private, NOW)
            }
            assert visibility.find(facts, memberships).all() == expected
        again = ChannelVisibility(replace(policy, version=policy.version + 1), visibility)
        assert again.find(MemberFacts(DAVE, 2, frozenset(roles)), memberships).open is shared.open
        before = earlier.find(MemberFacts(DAVE, 1, frozenset(roles)), memberships) if earlier else NO_CHANNELS
        assert shared.without(before) == shared.all() - before.all()
        earlier = visibility
