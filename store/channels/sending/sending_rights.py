"""The rights that a message in a channel needs, judged before it takes its place. The same for every place it gets."""

from __future__ import annotations

from enum import Enum, auto

from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_rights import ChannelRights, ChannelRightsFinder
from store.messages.message import Message
from store.messages.outbox_store import ChannelTerms
from store.workspaces.permissions import Permission
from store.workspaces.policies import Policies
from store.workspaces.policy import Policy


class SendingRefusal(Enum):
    """Reasons why a message may not be sent to a channel."""

    NOT_VISIBLE = auto()
    """There is no such channel, or the sender can't see it."""
    ARCHIVED = auto()
    NEEDS_SEND_MESSAGES = auto()
    MENTIONS_EVERYONE = auto()
    """Mentioning everybody needs MENTION_EVERYONE."""
    ROLE_NOT_MENTIONABLE = auto()
    """Mentioning a role that is not mentionable needs MENTION_EVERYONE."""
    UNKNOWN_ROLE = auto()
    MENTIONS_OUTSIDER = auto()
    """Somebody who can't see the channel is mentioned."""


class SendingRights:
    """Judges rights as this process knows them, under a policy version that the caller names, or a later one."""

    def __init__(self, policies: Policies, rights: ChannelRightsFinder) -> None:
        self._policies = policies
        self._rights = rights

    async def find_terms(self, message: Message, at_least: int) -> ChannelTerms | SendingRefusal:
        """Return the terms under which a message may take a place. No round trip if what decides is known.

        A refusal is certain: it is judged under the present version.
        """
        judged = await self._judge(message, at_least)
        if isinstance(judged, ChannelTerms):
            return judged
        current = await self._policies.current_version(workspace_of_channel(message.conversation))
        return await self._judge(message, max(at_least, current)) if current is not None else SendingRefusal.NOT_VISIBLE

    async def _judge(self, message: Message, at_least: int) -> ChannelTerms | SendingRefusal:
        channel = message.conversation
        if message.kind.countable:
            own = await self._rights.find(message.sender, channel, at_least)
            if own is None:
                return SendingRefusal.NOT_VISIBLE
            refusal, policy, slow_mode_ms = _judge_sender(own, message), own.policy, own.slow_mode_ms
        else:
            # Services write SYSTEM messages into any channel.
            found = await self._policies.find(workspace_of_channel(channel), at_least)
            if found is None or channel not in found.channels:
                return SendingRefusal.NOT_VISIBLE
            refusal = SendingRefusal.ARCHIVED if found.channels[channel].is_archived else None
            policy, slow_mode_ms = found, 0
        refusal = refusal or await self._judge_mentions(policy, message)
        return refusal or ChannelTerms(policy.version, slow_mode_ms)

    async def _judge_mentions(self, policy: Policy, message: Message) -> SendingRefusal | None:
        if not set(message.mentioned_roles) <= policy.roles.keys():
            return SendingRefusal.UNKNOWN_ROLE
        if message.mentions:
            viewers = await self._rights.find_viewers(message.conversation, message.mentions, policy.version)
            if len(viewers) < len(message.mentions):
                return SendingRefusal.MENTIONS_OUTSIDER
        return None


def judge_writing(rights: ChannelRights) -> SendingRefusal | None:
    """Return why a user who can see a channel may not write there; None if they may."""
    if rights.channel.is_archived:
        return SendingRefusal.ARCHIVED
    return None if rights.may(Permission.SEND_MESSAGES) else SendingRefusal.NEEDS_SEND_MESSAGES


def _judge_sender(rights: ChannelRights, message: Message) -> SendingRefusal | None:
    refusal = judge_writing(rights)
    if refusal is not None or rights.may(Permission.MENTION_EVERYONE):
        return refusal
    if message.mentions_all:
        return SendingRefusal.MENTIONS_EVERYONE
    roles = rights.policy.roles
    if any(role in roles and not roles[role].is_mentionable for role in message.mentioned_roles):
        return SendingRefusal.ROLE_NOT_MENTIONABLE
    return None
