"""The users that a message in a channel mentions by name, or by a role of few members."""

from __future__ import annotations

from collections.abc import Iterable

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_thread
from store.base.workspace_ids import RoleId, WorkspaceId, workspace_of_channel
from store.channels.channel_rights import ChannelRightsFinder
from store.messages.message import Message
from store.mongo.client import Mongo
from store.mongo.collections import WORKSPACE_MEMBERS, rows_of_workspace
from store.workspaces.policies import Policies
from store.workspaces.policy import Policy
from store.workspaces.workspace_fields import WorkspaceMemberField

LARGEST_ROLE = 200
"""Members of a role up to which each of them is notified of a mention."""


class ChannelMentions:
    """Finds the users to notify."""

    def __init__(self, mongo: Mongo, policies: Policies, rights: ChannelRightsFinder) -> None:
        self._mongo = mongo
        self._policies = policies
        self._rights = rights

    async def find(self, message: Message, judged_version: int) -> tuple[UserId, ...]:
        """Return the users who are notified of a message: mentioned, able to see the channel, and not its sender.

        No round trip for users mentioned by name, if what decides their rights is known; one to MongoDB for roles.
        judged_version: the policy version under which the message got its place; 0: not known, so the present one is
        read from Redis.
        """
        channel = _parent_of(message)
        workspace = workspace_of_channel(channel)
        version = judged_version or await self._policies.current_version(workspace)
        policy = await self._policies.find(workspace, version) if version is not None else None
        if policy is None:
            return ()
        users = dict.fromkeys(message.mentions)
        roles = [role for role in message.mentioned_roles if _is_small(policy, role)]
        if roles:
            users |= dict.fromkeys(await self._list_members(workspace, roles))
        users.pop(message.sender, None)
        viewers = await self._rights.find_viewers(channel, users, policy.version) if users else {}
        return tuple(user for user in users if user in viewers)

    async def _list_members(self, workspace: WorkspaceId, roles: Iterable[RoleId]) -> list[UserId]:
        having = rows_of_workspace(workspace) | {
            WorkspaceMemberField.WORKSPACE: workspace,
            WorkspaceMemberField.ROLES: {"$in": list(roles)},
        }
        rows = await self._mongo.find(WORKSPACE_MEMBERS, having, projection={"_id": 1})
        return sorted(UserId(row["_id"].partition(" ")[2]) for row in rows)


def has_mentions(message: Message) -> bool:
    """Return whether users may have to be notified of a message in a channel, or in a thread there."""
    is_in_channel = kind_of(_parent_of(message)) is ConversationKind.CHANNEL
    return is_in_channel and message.kind.countable and bool(message.mentions or message.mentioned_roles)


def mentions_by_name_only(message: Message) -> bool:
    """Return whether the users to notify are those that a message names: in a thread that is in no channel."""
    is_in_thread = parse_thread(message.conversation) is not None
    return is_in_thread and message.kind.countable and kind_of(_parent_of(message)) is not ConversationKind.CHANNEL


def _parent_of(message: Message) -> ConversationId:
    """Return the conversation in which a message is, itself or in a thread."""
    thread = parse_thread(message.conversation)
    return message.conversation if thread is None else thread.parent


def _is_small(policy: Policy, role: RoleId) -> bool:
    # The role of everyone counts no members: it is not stored with them, so it finds none.
    return role in policy.roles and policy.roles[role].member_count <= LARGEST_ROLE
