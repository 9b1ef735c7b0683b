"""Channels that a change of the policy, or of a member, concerns: their rights or settings are different after it.

A process with an older policy and older facts judges rights in all other channels, and shows their settings, as they
are at present (ADR 57).
"""

from __future__ import annotations

from dataclasses import replace

from store.base.ids import ConversationId
from store.workspaces.permissions import NOTHING, Permission
from store.workspaces.policy import Channel, MemberFacts, Policy
from store.workspaces.rights import rights_in_channel


def channels_concerned(before: Policy, after: Policy) -> frozenset[ConversationId]:
    """Return the channels whose rights or settings differ. New channels are left out: they have no older head."""
    if before.owner != after.owner or _changes_permissions(before, after):
        return frozenset(before.channels)
    return frozenset(
        id
        for id, channel in before.channels.items()
        if id not in after.channels or _settings(before, channel) != _settings(after, after.channels[id])
    )


def channels_of_member(
    before: Policy,
    after: Policy,
    facts_before: MemberFacts,
    facts_after: MemberFacts | None,
    private: frozenset[ConversationId] | None,
) -> frozenset[ConversationId]:
    """Return the channels where a change of a member gives the member other rights, now or during a time-out.

    Args:
        before: The policy before the change.
        after: The policy after it.
        facts_before: The member before the change.
        facts_after: The member after it; None: the membership ends.
        private: PRIVATE channels that the member is in; None: not known, so it may be all.
    """
    earlier, later = _all_rights(before, facts_before, private), _all_rights(after, facts_after, private)
    until = facts_after.timed_out_until_ms if facts_after is not None else 0
    return frozenset(
        id
        for id in earlier.keys() | later.keys()
        if facts_before.timed_out_until_ms != until or earlier.get(id, NOTHING) != later.get(id, NOTHING)
    )


def _all_rights(
    policy: Policy, facts: MemberFacts | None, private: frozenset[ConversationId] | None
) -> dict[ConversationId, Permission]:
    """Return a member's rights without a time-out, in the channels where they have any."""
    if facts is None:
        return {}
    facts = replace(facts, timed_out_until_ms=0)
    rights = {
        id: rights_in_channel(policy, facts, channel, private is None or id in private, 0)
        for id, channel in policy.channels.items()
    }
    return {id: permissions for id, permissions in rights.items() if permissions}


def hides_or_shows(before: Policy, after: Policy) -> bool:
    """Return whether a channel that exists before and after may have become visible to a member, or hidden."""
    return (
        before.owner != after.owner
        or _changes_permissions(before, after)
        or any(
            id not in after.channels or _visibility(before, channel) != _visibility(after, after.channels[id])
            for id, channel in before.channels.items()
        )
    )


def _changes_permissions(before: Policy, after: Policy) -> bool:
    """Return whether a role that members may have gives other permissions."""
    return any(
        role.permissions != (after.roles[id].permissions if id in after.roles else NOTHING)
        for id, role in before.roles.items()
    )


def _visibility(policy: Policy, channel: Channel) -> tuple[object, ...]:
    """Return everything about a channel that decides who sees it."""
    overwrites = policy.overwrites_of(channel)
    return channel.kind, overwrites.roles, overwrites.users


def _settings(policy: Policy, channel: Channel) -> tuple[object, ...]:
    """Return everything about a channel that decides rights there, or that clients are shown.

    Without its member count, which changes without a version.
    """
    overwrites = policy.overwrites_of(channel)
    category = policy.categories.get(channel.category) if channel.category is not None else None
    place = (category.name, category.position) if category is not None else None
    return replace(channel, member_count=0), overwrites.roles, overwrites.users, place
