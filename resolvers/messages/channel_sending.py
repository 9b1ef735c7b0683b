"""Sending to channels: the rights that a message needs, judged before it takes its place."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import Archived, ConfabError, Forbidden, SlowModeActive, Unavailable
from resolvers.conversations.access import no_conversation
from resolvers.conversations.channel_access import check_may_write
from resolvers.messages.new_messages import mentioned_outsider, unknown_role
from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_rights import ChannelRights
from store.messages.message import Message, ReservedMessage
from store.messages.outbox_store import ChannelTerms, OutdatedRights, Refusal, SlowModeWait
from store.workspaces.permissions import Permission
from store.workspaces.policy import Policy

_ATTEMPTS = 10


async def reserve_in_channel(app: Confab, message: Message) -> ReservedMessage | None:
    """Reserve a place for a message in a channel. None if another request has reserved one for it.

    Rights are judged as this process knows them, which costs no round trip. The reservation refuses the message if they
    have changed since.

    Raises NotFound, Forbidden, Archived, SlowModeActive, InvalidInput: then nothing was stored.
    """
    store, channel, at_least = app.store, message.conversation, 0
    for _ in range(_ATTEMPTS):
        place = await store.outbox.reserve_in_channel(message, await _find_terms(app, message, at_least))
        match place:
            case OutdatedRights(version):
                at_least = version
            case SlowModeWait(wait_ms):
                raise SlowModeActive("this channel has slow mode; wait before you send again", retry_after_ms=wait_ms)
            case Refusal.ALREADY_RESERVED:
                return None
            case ReservedMessage():
                return place
            case _:
                if not await store.conversations.load((channel,), with_members=False):
                    raise no_conversation()
    raise Unavailable("the rights in the channel change too often; please try again")


async def _find_terms(app: Confab, message: Message, at_least: int) -> ChannelTerms:
    """Return the terms under which the message may take a place, judged under that policy version or a later one.

    A refusal is certain: it is judged under the present version.
    """
    try:
        return await _judge(app, message, at_least)
    except ConfabError:
        current = await app.store.policies.current_version(workspace_of_channel(message.conversation))
        if current is None:
            raise no_conversation() from None
    return await _judge(app, message, max(at_least, current))


async def _judge(app: Confab, message: Message, at_least: int) -> ChannelTerms:
    channel, rights = message.conversation, app.store.channel_rights
    if not message.kind.countable:
        # Services write SYSTEM messages into any channel.
        policy = await app.store.policies.find(workspace_of_channel(channel), at_least)
        if policy is None or channel not in policy.channels:
            raise no_conversation()
        if policy.channels[channel].is_archived:
            raise Archived("this channel is archived: it does not change any more", field="conversationId")
        version, slow_mode_ms = policy.version, 0
    else:
        own = await rights.find(message.sender, channel, at_least)
        if own is None:
            raise no_conversation()
        _check_sender(own, message)
        policy, version, slow_mode_ms = own.policy, own.policy.version, own.slow_mode_ms
    _check_roles(policy, message)
    if message.mentions:
        viewers = await rights.find_viewers(channel, message.mentions, version)
        if len(viewers) < len(message.mentions):
            raise mentioned_outsider()
    return ChannelTerms(version, slow_mode_ms)


def _check_sender(rights: ChannelRights, message: Message) -> None:
    check_may_write(rights)
    if rights.may(Permission.MENTION_EVERYONE):
        return
    if message.mentions_all:
        raise Forbidden("mentionAll needs the permission MENTION_EVERYONE", field="mentionAll")
    roles = rights.policy.roles
    if any(role in roles and not roles[role].is_mentionable for role in message.mentioned_roles):
        raise Forbidden(
            "mentioning a role that is not mentionable needs the permission MENTION_EVERYONE", field="mentionRoleIds"
        )


def _check_roles(policy: Policy, message: Message) -> None:
    if not set(message.mentioned_roles) <= policy.roles.keys():
        raise unknown_role()
