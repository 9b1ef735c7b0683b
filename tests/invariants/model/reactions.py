"""The rules of reactions: who may react, and what is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api.client import Refusal
from tests.invariants.model.conversation import MEMBER
from tests.invariants.model.operation import Op

if TYPE_CHECKING:
    from tests.invariants.model.sessions import SessionModel

REACTION_KINDS = ("react", "unreact", "clear")
EMOJI = ("👍", "🎉", ":party:")


def refusal(model: SessionModel, op: Op) -> Refusal | None:
    """Return the error of a change of reactions (value: seq and emoji), or None if it is allowed."""
    conversation, seq = model.conversations[op.target], op.value[0]
    if not conversation.may_read(op.user, seq):
        return Refusal("NOT_FOUND", "messageId")
    if op.user not in conversation.members:
        return Refusal("NOT_A_MEMBER", "messageId")
    if op.kind == "clear" and conversation.members[op.user] in ("", MEMBER):
        return Refusal("FORBIDDEN", "messageId")
    return Refusal("INVALID_INPUT", "messageId") if conversation.messages[seq - 1].recalled else None


def change(model: SessionModel, op: Op) -> None:
    """Apply a change that is allowed. No session moves."""
    seq, emoji = op.value
    reactions = model.conversations[op.target].messages[seq - 1].reactions
    if op.kind == "clear":
        for each in [emoji] if emoji else list(reactions):
            reactions.pop(each, None)
        return
    users = reactions.setdefault(emoji, [])
    if op.kind == "react" and op.user not in users:
        users.append(op.user)
    if op.kind == "unreact" and op.user in users:
        users.remove(op.user)
    if not users:
        del reactions[emoji]
