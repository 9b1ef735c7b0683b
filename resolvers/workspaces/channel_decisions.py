"""Decisions on channels: the rights of the actor, judged on the newest policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.checks import check_encodable
from resolvers.base.errors import InvalidInput, LimitReached, NotFound
from resolvers.base.names import accept_name
from resolvers.conversations.access import Access, access_conversation
from resolvers.workspaces.access import no_permission
from resolvers.workspaces.changes import change_as_member
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.base.workspace_ids import CategoryId, WorkspaceId, workspace_of, workspace_of_channel
from store.channels import channel_follows
from store.channels.channel_rights import ChannelRights
from store.conversations.conversation import Head
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, Policy

LONGEST_CHANNEL_NAME = 80
LONGEST_TOPIC = 1_024
LONGEST_SLOW_MODE_SECONDS = 21_600

Decide = Callable[[ChannelRights], Awaitable[ProposedPolicyChange | None]]
"""Decides a change of a channel that the actor can see, on the newest policy. It may be called several times."""


async def change_channel(
    app: Confab, actor: UserId, channel: str, permission: Permission, decide: Decide
) -> ChannelRights:
    """Change a channel, with a permission that the actor needs there.

    Returns what the actor could see before the change, with the policy after it. Raises NotFound, Forbidden,
    RateLimited, and what `decide` raises: then nothing was changed.
    """
    if kind_of(channel) is not ConversationKind.CHANNEL:
        raise no_channel()
    wanted = ConversationId(channel)
    seen: list[ChannelRights] = []

    async def decide_on_channel(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        rights = await app.store.channel_rights.judge(policy, facts, wanted)
        if rights is None:
            raise no_channel()
        if not rights.may(permission):
            raise no_permission(permission)
        seen[:] = [rights]
        return await decide(rights)

    after = await change_as_member(app, actor, workspace_of_channel(wanted), decide_on_channel, "channelId")
    return replace(seen[0], policy=after, channel=after.channels.get(wanted, seen[0].channel))


async def show_channel(app: Confab, actor: UserId, seen: ChannelRights) -> Access:
    """Return a channel after a change: as it was seen before if the actor can't see it any more."""
    access = await access_conversation(app, actor, seen.channel.id)
    if access is not None:
        return access
    return Access(Head(seen.channel.id, ConversationKind.CHANNEL, 0, None, 0, None), [], rights=seen)


def find_category(policy: Policy, category: str | None) -> CategoryId | None:
    """Return the id of a category of the workspace. Raises NotFound."""
    if category is None:
        return None
    found = CategoryId(category)
    if found not in policy.categories:
        raise no_category()
    return found


def workspace_of_category(category: str) -> WorkspaceId:
    """Return the workspace of a category. Raises NotFound for a text that is no id of a category."""
    workspace = workspace_of(category, "k")
    if workspace is None:
        raise no_category()
    return workspace


def accept_channel_name(name: str) -> str:
    """Return the name of a channel or category as it is stored. Raises InvalidInput."""
    return accept_name(name, "name", LONGEST_CHANNEL_NAME)


def accept_topic(topic: str | None) -> str | None:
    """Return a topic as it is stored; None: there is none. Raises InvalidInput."""
    if topic is None or not topic.strip():
        return None
    if len(topic) > LONGEST_TOPIC:
        raise InvalidInput(f"topic must have at most {LONGEST_TOPIC} characters", field="topic")
    if "\0" in topic:
        raise InvalidInput("topic must not contain a NUL character", field="topic")
    check_encodable(topic, "topic")
    return topic


def check_position(position: int | None) -> None:
    """Raise InvalidInput for a negative position. Positions after the last one mean the end."""
    if position is not None and position < 0:
        raise InvalidInput("position must not be negative", field="position")


def check_slow_mode(seconds: int | None) -> None:
    """Raise InvalidInput for a time outside the limits."""
    if seconds is not None and not 0 <= seconds <= LONGEST_SLOW_MODE_SECONDS:
        raise InvalidInput(f"slowModeSeconds must be from 0 to {LONGEST_SLOW_MODE_SECONDS}", field="slowModeSeconds")


def too_many_followed(field: str | None = None) -> LimitReached:
    """Return the error for a user who follows as many channels as allowed."""
    most = channel_follows.MAX_FOLLOWED
    return LimitReached(f"a user can follow at most {most} channels of a workspace", field=field)


def no_channel() -> NotFound:
    """Return the error for a channel that does not exist, or that the caller can't see."""
    return NotFound("there is no such channel, or you can't see it", field="channelId")


def no_category() -> NotFound:
    """Return the error for a category that does not exist."""
    return NotFound("there is no such category", field="categoryId")
