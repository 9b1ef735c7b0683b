"""Changes of memberships of PRIVATE channels, and which kept memberships they make outdated."""

from __future__ import annotations

from dataclasses import replace

from store.base.ids import UserId
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.documents import channel_document, channel_from
from store.workspaces.policy import ChannelKind, MemberFacts
from tests.store.workspaces import BOB, CAROL, GENERAL, STAFF, W, sample_policy


def test_a_change_of_memberships_renews_those_of_its_channel_alone() -> None:
    before = sample_policy()
    many = frozenset((STAFF, UserId(f"u{number}")) for number in range(30))
    for members in (frozenset({(STAFF, BOB)}), many | {(STAFF, BOB)}):
        after = ProposedPolicyChange(before, channel_members=members).result(before, "a", 1)
        channel = after.channels[STAFF]
        assert channel_from(channel_document(W, channel)).membership_changes == channel.membership_changes
        assert after.accepts(MemberFacts(BOB, before.version)) and not after.pending[-1].channels
        assert after.accepts_membership(STAFF, BOB, after.version)
        assert not after.accepts_membership(STAFF, BOB, before.version)
        assert after.accepts_membership(STAFF, CAROL, before.version) == (len(members) == 1)
        assert after.accepts_membership(GENERAL, BOB, before.version)


def test_a_channel_names_its_newest_changes_of_memberships() -> None:
    policy = start = sample_policy()
    for number in range(25):
        users = frozenset({(STAFF, UserId(f"u{number}"))})
        policy = ProposedPolicyChange(policy, channel_members=users).result(policy, "a", 1)
    changes = policy.channels[STAFF].membership_changes
    assert (changes.since, len(changes.of_users), changes.newest) == (start.version + 5, 20, start.version + 25)
    assert not changes.accepts(UserId("u4"), start.version + 4) and changes.accepts(UserId("u4"), start.version + 5)
    assert not changes.accepts(UserId("u5"), start.version + 5) and changes.accepts(UserId("u5"), start.version + 6)


def test_a_change_of_kind_renews_the_memberships_of_the_channel() -> None:
    before = sample_policy()
    channels = {**before.channels, GENERAL: replace(before.channels[GENERAL], kind=ChannelKind.PRIVATE)}
    after = ProposedPolicyChange(replace(before, channels=channels)).result(before, "a", 1)
    assert not after.accepts_membership(GENERAL, BOB, before.version)
    assert after.accepts_membership(STAFF, BOB, before.version) and after.accepts(MemberFacts(BOB, before.version))
