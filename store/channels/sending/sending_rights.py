"""The rights that a message in a channel or its threads needs, judged before it takes its place, at every place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, auto

from store.base.ids import ConversationId, UserId, parse_thread
from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_rights import ChannelRights, ChannelRightsFinder
from store.content_rules.content_flag import ContentFlag
from store.content_rules.content_rule import ContentAction
from store.content_rules.content_rules import ContentRules
from store.content_rules.message_texts import texts_of
from store.messages.message import Message
from store.messages.outbox.places import ChannelTerms
from store.workspaces.permissions import Permission
from store.workspaces.policies import Policies
from store.workspaces.policy import MemberFacts, Policy


class SendingRefusal(Enum):
    """Reasons why a message may not be sent to a channel."""

    NOT_VISIBLE = auto()
    """There is no such channel, or the sender can't see it."""
    ARCHIVED = auto()
    NEEDS_SEND_MESSAGES = auto()
    NEEDS_SEND_THREADS = auto()
    NEEDS_ATTACH_FILES = auto()
    MENTIONS_EVERYONE = auto()
    """Mentioning everybody needs MENTION_EVERYONE."""
    ROLE_NOT_MENTIONABLE = auto()
    """Mentioning a role that is not mentionable needs MENTION_EVERYONE."""
    UNKNOWN_ROLE = auto()
    MENTIONS_OUTSIDER = auto()
    """Somebody who can't see the channel, or the parent message of a thread, is mentioned."""
    NO_WEBHOOK = auto()
    """The incoming webhook was deleted."""
    CONTENT = auto()
    """A content rule does not allow the message."""
    CONTENT_TIMEOUT = auto()
    """A content rule does not allow the message, and its sender gets a time-out."""


HasWebhook = Callable[[UserId, ConversationId], Awaitable[bool]]
"""Returns whether an incoming webhook of a channel exists now. Reads MongoDB."""


class SendingRights:
    """Judges rights as this process knows them, under a policy version that the caller names, or a later one."""

    def __init__(
        self, policies: Policies, rights: ChannelRightsFinder, has_webhook: HasWebhook, rules: ContentRules
    ) -> None:
        self._rules = rules
        self._policies = policies
        self._rights = rights
        self._has_webhook = has_webhook

    async def find_terms(
        self, message: Message, at_least: int, parent: Message | None = None
    ) -> ChannelTerms | SendingRefusal:
        """Return the terms under which a message may take a place. No round trip if what decides is known.

        A refusal is certain: it is judged under the present version. parent: of a reply, the parent message, if it has
        to be checked that sender and mentioned users may read it.
        """
        judged = await self._judge(message, at_least, parent)
        if isinstance(judged, ChannelTerms):
            return judged
        current = await self._policies.current_version(workspace_of_channel(_channel_of(message)))
        if current is None:
            return SendingRefusal.NOT_VISIBLE
        return await self._judge(message, max(at_least, current), parent)

    async def _judge(self, message: Message, at_least: int, parent: Message | None) -> ChannelTerms | SendingRefusal:
        channel = _channel_of(message)
        if message.is_from_webhook:
            return await self._judge_webhook(message, at_least)
        manages = creates = embeds = True
        facts = None
        if message.kind.countable:
            own = await self._rights.find(message.sender, channel, at_least)
            if own is None or not _may_read(own, parent):
                return SendingRefusal.NOT_VISIBLE
            refusal, policy, slow_mode_ms = _judge_sender(own, message), own.policy, own.slow_mode_ms
            facts = own.facts
            manages, creates = own.may(Permission.MANAGE_THREADS), own.may(Permission.CREATE_THREADS)
            embeds = own.may(Permission.EMBED_LINKS)
        else:
            # Services write SYSTEM messages into any channel.
            found = await self._policies.find(workspace_of_channel(channel), at_least)
            if found is None or channel not in found.channels:
                return SendingRefusal.NOT_VISIBLE
            refusal = SendingRefusal.ARCHIVED if found.channels[channel].is_archived else None
            policy, slow_mode_ms = found, 0
        refusal = refusal or await self._judge_mentions(policy, message, parent)
        content = refusal or await self._judge_content(policy, facts, message)
        if isinstance(content, SendingRefusal):
            return content
        return ChannelTerms(policy.version, slow_mode_ms, manages, creates, embeds, content)

    async def _judge_webhook(self, message: Message, at_least: int) -> ChannelTerms | SendingRefusal:
        """Judge a message from an incoming webhook. The webhook has to exist, and needs no permissions."""
        channel = _channel_of(message)
        policy = await self._policies.find(workspace_of_channel(channel), at_least)
        if policy is None or channel not in policy.channels:
            return SendingRefusal.NOT_VISIBLE
        if policy.channels[channel].is_archived:
            return SendingRefusal.ARCHIVED
        # After the policy is known: a deletion that this read misses raises the version before it is answered, so the
        # reservation under the earlier version is refused.
        if not await self._has_webhook(message.sender, channel):
            return SendingRefusal.NO_WEBHOOK
        content = await self._judge_content(policy, None, message)
        if isinstance(content, SendingRefusal):
            return content
        return ChannelTerms(policy.version, may_manage_threads=False, flag=content)

    async def _judge_content(
        self, policy: Policy, facts: MemberFacts | None, message: Message
    ) -> ContentFlag | SendingRefusal | None:
        """Judge a message under the content rules of a policy. SYSTEM messages are exempt.

        Returns the flag that the message is sent with; None: none. facts: of the sender; None for webhooks.
        """
        if not message.kind.countable:
            return None
        rule = await self._rules.judge(policy, facts, _channel_of(message), texts_of(message))
        if rule is not None and rule.action is not ContentAction.FLAG:
            # Webhooks and the owner cannot be timed out.
            may_time_out = facts is not None and message.sender != policy.owner
            times_out = rule.action is ContentAction.TIMEOUT and may_time_out
            return SendingRefusal.CONTENT_TIMEOUT if times_out else SendingRefusal.CONTENT
        if rule is not None:
            return ContentFlag(policy.owner, rule.id, message.id)
        # The external hook has flagged it.
        return message.flag._replace(reporter=policy.owner) if message.flag is not None else None

    async def _judge_mentions(self, policy: Policy, message: Message, parent: Message | None) -> SendingRefusal | None:
        if not set(message.mentioned_roles) <= policy.roles.keys():
            return SendingRefusal.UNKNOWN_ROLE
        if message.mentions:
            viewers = await self._rights.find_viewers(_channel_of(message), message.mentions, policy.version)
            if sum(_may_read(rights, parent) for rights in viewers.values()) < len(message.mentions):
                return SendingRefusal.MENTIONS_OUTSIDER
        return None


def _channel_of(message: Message) -> ConversationId:
    thread = parse_thread(message.conversation)
    return message.conversation if thread is None else thread.parent


def _may_read(rights: ChannelRights, parent: Message | None) -> bool:
    """Return whether a user may read a parent message; None: there is nothing to check."""
    return parent is None or (rights.history is not None and rights.history.has(parent))


def judge_writing_in_threads(rights: ChannelRights) -> SendingRefusal | None:
    """Return why a user who can see a channel may not write in its threads; None if they may."""
    if rights.channel.is_archived:
        return SendingRefusal.ARCHIVED
    return None if rights.may(Permission.SEND_THREADS) else SendingRefusal.NEEDS_SEND_THREADS


def judge_writing(rights: ChannelRights) -> SendingRefusal | None:
    """Return why a user who can see a channel may not write there; None if they may."""
    if rights.channel.is_archived:
        return SendingRefusal.ARCHIVED
    return None if rights.may(Permission.SEND_MESSAGES) else SendingRefusal.NEEDS_SEND_MESSAGES


def _judge_sender(rights: ChannelRights, message: Message) -> SendingRefusal | None:
    is_reply = parse_thread(message.conversation) is not None
    refusal = judge_writing_in_threads(rights) if is_reply else judge_writing(rights)
    if refusal is None and message.is_broadcast:
        # SEND_THREADS has no effect without SEND_MESSAGES, but this does not rely on it.
        refusal = judge_writing(rights)
    if refusal is None and message.attachments and not rights.may(Permission.ATTACH_FILES):
        refusal = SendingRefusal.NEEDS_ATTACH_FILES
    if refusal is not None or rights.may(Permission.MENTION_EVERYONE):
        return refusal
    if message.mentions_all:
        return SendingRefusal.MENTIONS_EVERYONE
    roles = rights.policy.roles
    if any(role in roles and not roles[role].is_mentionable for role in message.mentioned_roles):
        return SendingRefusal.ROLE_NOT_MENTIONABLE
    return None
