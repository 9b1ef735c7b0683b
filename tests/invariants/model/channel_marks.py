"""The rules of reactions and pins in channels. Each function returns the code of its refusal, or None."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.invariants.model.operation import Op

if TYPE_CHECKING:
    from tests.invariants.model.channels import ChannelMessage, ChannelModel, ModelChannel

READ_HISTORY = "READ_HISTORY"


def change_reactions(model: ChannelModel, op: Op, channel: ModelChannel) -> str | None:
    """Add, remove or clear reactions (value: seq and emoji; clearing may have no emoji)."""
    seq, emoji = op.value
    message, rights = channel.messages[seq - 1], model.rights(op.user, channel)
    if (READ_HISTORY not in rights and message.sender != op.user) or not model.may_read(op.user, channel, message):
        return "NOT_FOUND"
    if channel.is_archived:
        return "ARCHIVED"
    if op.kind == "clear" and "MANAGE_MESSAGES" not in rights:
        return "FORBIDDEN"
    if message.is_recalled:
        return "INVALID_INPUT"
    if op.kind == "clear":
        for each in [emoji] if emoji else list(message.reactions):
            message.reactions.pop(each, None)
        return None
    if op.kind == "react" and emoji not in message.reactions and "ADD_REACTIONS" not in rights:
        return "FORBIDDEN"
    users = message.reactions.setdefault(emoji, [])
    if op.kind == "react" and op.user not in users:
        users.append(op.user)
    if op.kind == "unreact" and op.user in users:
        users.remove(op.user)
    if not users:
        del message.reactions[emoji]
    return None


def change_pin(model: ChannelModel, op: Op, channel: ModelChannel) -> str | None:
    """Pin or unpin a message (value: seq). A pin is announced by a SYSTEM message."""
    message, rights = channel.messages[op.value - 1], model.rights(op.user, channel)
    if READ_HISTORY not in rights or not model.may_read(op.user, channel, message):
        return "NOT_FOUND"
    if channel.is_archived:
        return "ARCHIVED"
    if "PIN_MESSAGES" not in rights:
        return "FORBIDDEN"
    is_pin = op.kind == "pin"
    if message.is_system or (is_pin and message.is_recalled):
        return "INVALID_INPUT"
    if (message.seq in channel.pins) == is_pin:
        return None
    if is_pin:
        channel.pins.append(message.seq)
        model.announce(op, channel)
    else:
        channel.pins.remove(message.seq)
    return None


def shown_reactions(message: ChannelMessage, user: str) -> list[tuple[str, int, bool, list[str]]]:
    """Return emoji, count, whether the user reacted, and the first users."""
    reactions = {} if message.is_recalled else message.reactions
    return [(emoji, len(users), user in users, users[:5]) for emoji, users in reactions.items()]


MARKS = {
    "react": change_reactions,
    "unreact": change_reactions,
    "clear": change_reactions,
    "pin": change_pin,
    "unpin": change_pin,
}
"""The rule of each kind of operation."""
