"""The rules of pinned messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api.client import Refusal
from tests.invariants.model.conversation import MEMBER, ModelMessage
from tests.invariants.model.operation import Op

if TYPE_CHECKING:
    from tests.invariants.model.sessions import SessionModel

PIN_KINDS = ("pin_message", "unpin_message")


def refusal(model: SessionModel, op: Op) -> Refusal | None:
    """Return the error of pinning or unpinning a message (value: seq), or None if it is allowed."""
    conversation, seq = model.conversations[op.target], op.value
    if not conversation.may_read(op.user, seq):
        return Refusal("NOT_FOUND", "messageId")
    if op.user not in conversation.members:
        return Refusal("NOT_A_MEMBER", "messageId")
    if conversation.members[op.user] == MEMBER:
        return Refusal("FORBIDDEN", "messageId")
    sent = conversation.messages[seq - 1]
    is_bad = sent.system or (op.kind == "pin_message" and sent.recalled)
    return Refusal("INVALID_INPUT", "messageId") if is_bad else None


def change(model: SessionModel, op: Op) -> None:
    """Apply a change that is allowed. A pin is announced by a SYSTEM message that replies to the pinned one."""
    conversation, seq = model.conversations[op.target], op.value
    sent, is_pin = conversation.messages[seq - 1], op.kind == "pin_message"
    if (seq in conversation.pins) == is_pin:
        return
    if is_pin:
        conversation.pins.append(seq)
    else:
        conversation.pins.remove(seq)
    show(model, op.target, sent)
    if is_pin:
        model.announce(op.target, conversation.add_event(op.user, "MESSAGE_PINNED", sent.sender, reply=seq))


def show(model: SessionModel, name: str, sent: ModelMessage) -> None:
    """Send PinsChanged to the members who may read the message. If it is the newest one, their sessions move."""
    conversation = model.conversations[name]
    for member in conversation.members:
        if conversation.may_read(member, sent.seq):
            model.emit(member, "PinsChanged", name, sent)
            if conversation.newest(member) == sent.seq:
                model.touch(member, name)
