"""Creation of channels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.base.checks import check_key
from resolvers.base.errors import InvalidInput, LimitReached, NotAMember, NotFound
from resolvers.base.metadata import encode_metadata
from resolvers.conversations.access import Access, access_conversation
from resolvers.users.users import check_user_ids
from resolvers.workspaces.access import no_permission
from resolvers.workspaces.audit_values import channel_values
from resolvers.workspaces.changes import change_as_member, require
from resolvers.workspaces.channel_decisions import (
    accept_channel_name,
    accept_topic,
    check_position,
    check_slow_mode,
    find_category,
    too_many_followed,
)
from store.audit.audit_note import AuditNote
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import channel_id
from store.channels.channel_rows import creation_writes
from store.channels.positions import place_channel
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Policy
from store.workspaces.rights import rights_in_channel

MAX_CHANNELS = 1_000
MAX_MEMBERS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class NewChannel:
    """A channel that a caller wants to create. `metadata`: a JSON value."""

    workspace: str
    name: str
    kind: ChannelKind = ChannelKind.PUBLIC
    topic: str | None = None
    category: str | None = None
    position: int | None = None
    is_default: bool = False
    members: tuple[str, ...] = ()
    full_history: bool = True
    slow_mode_seconds: int = 0
    metadata: object = None
    key: str | None = None


async def create_channel(app: Confab, creator: UserId, new: NewChannel) -> Access:
    """Create a channel. Its creator and the given members follow it.

    If the creator uses a key again in the workspace, the first channel is returned. Raises InvalidInput, NotFound,
    NotAMember, Forbidden, LimitReached and RateLimited: then nothing was stored.
    """
    record = _check(new, app.store.clock.now_ms())
    members = list(dict.fromkeys((creator, *map(UserId, new.members))))

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        first = await app.store.channel_claims.find(creator, policy.workspace, new.key) if new.key else None
        if first is not None:
            made.append(first)
            return None
        require(app, policy, facts, Permission.MANAGE_CHANNELS)
        category = find_category(policy, new.category)
        if len(policy.channels) >= MAX_CHANNELS:
            raise LimitReached(f"a workspace has at most {MAX_CHANNELS} channels")
        found = await app.store.policies.find_members(policy.workspace, members, policy.version)
        if len(found) < len(members):
            raise NotAMember("memberIds must name members of the workspace", field="memberIds")
        is_private = record.kind is ChannelKind.PRIVATE
        inside = replace(record, category=category)
        if Permission.VIEW_CHANNEL not in rights_in_channel(policy, facts, inside, True, record.created_at_ms):
            raise no_permission(Permission.VIEW_CHANNEL)
        full = await app.store.channel_follows.list_at_limit(policy, members)
        if full and (is_private or full != [creator]):
            raise too_many_followed("memberIds")
        # Creators who follow as many channels as allowed do not follow the new one.
        followers = [user for user in members if user not in full]
        channel = replace(
            record,
            id=channel_id(policy.workspace, app.store.ids.next()),
            category=category,
            member_count=len(followers),
        )
        made.append(channel.id)
        channels = place_channel(policy.channels, channel, new.position)
        values = channel_values(channels[channel.id]) | {"memberIds": followers}
        return ProposedPolicyChange(
            replace(policy, channels=channels),
            channel_members=frozenset((channel.id, user) for user in followers) if is_private else frozenset(),
            writes=creation_writes(channel.id, creator, followers, new.key, record.created_at_ms),
            audit=[AuditNote(creator, "createChannel", policy.workspace, channel.id, after=values)],
        )

    made: list[ConversationId] = []
    await change_as_member(app, creator, new.workspace, decide)
    access = await access_conversation(app, creator, made[-1])
    if access is None:
        raise NotFound("the channel was deleted, or you can't see it any more", field="idempotencyKey")
    return access


def _check(new: NewChannel, now_ms: int) -> Channel:
    """Check the input. Return the channel, without its id, category and position."""
    check_key(new.key)
    check_position(new.position)
    check_slow_mode(new.slow_mode_seconds)
    check_user_ids(new.members, "memberIds")
    if len(set(new.members)) > MAX_MEMBERS_AT_ONCE:
        raise InvalidInput(f"memberIds must name at most {MAX_MEMBERS_AT_ONCE} users", field="memberIds")
    check_default(new.kind, is_default=new.is_default)
    return Channel(
        id=ConversationId(""),
        name=accept_channel_name(new.name),
        kind=new.kind,
        position=0,
        created_at_ms=now_ms,
        topic=accept_topic(new.topic),
        is_default=new.is_default,
        full_history=new.full_history,
        slow_mode_seconds=new.slow_mode_seconds,
        metadata=encode_metadata(new.metadata),
    )


def check_default(kind: ChannelKind, *, is_default: bool) -> None:
    """Raise InvalidInput for a PRIVATE channel that new members would follow."""
    if is_default and kind is ChannelKind.PRIVATE:
        raise InvalidInput("a PRIVATE channel can't be a default channel", field="isDefault")
