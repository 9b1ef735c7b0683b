"""The rules of edits, recalls, receipts and the offline queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api.client import Refusal
from tests.invariants.model import pins
from tests.invariants.model.conversation import MEMBER, Json, ModelMessage
from tests.invariants.model.operation import Op

if TYPE_CHECKING:
    from tests.invariants.model.sessions import SessionModel

REVISIONS = ("edit", "recall")
RECALL_MS = 120_000

RANKS = ("SENT", "DELIVERED", "READ")


def refusal(model: SessionModel, op: Op) -> Refusal | None:
    """Return the error of an edit (value: seq and text) or a recall (value: seq), or None if it is allowed."""
    conversation, seq = model.conversations[op.target], op.value[0]
    if not conversation.may_read(op.user, seq):
        return Refusal("NOT_FOUND", "messageId")
    if op.user not in conversation.members:
        return Refusal("NOT_A_MEMBER")
    sent, moderates = conversation.messages[seq - 1], conversation.members[op.user] not in ("", MEMBER)
    if sent.system:
        return Refusal("INVALID_INPUT")
    if op.kind == "edit":
        if sent.sender != op.user:
            return Refusal("FORBIDDEN")
        return Refusal("INVALID_INPUT") if sent.recalled else None
    if sent.sender != op.user and not moderates:
        return Refusal("FORBIDDEN")
    late = model.now - sent.at > RECALL_MS
    return Refusal("RECALL_TIMEOUT") if late and not moderates and not sent.recalled else None


def change(model: SessionModel, op: Op) -> None:
    """Apply an edit or a recall that is allowed."""
    conversation, seq = model.conversations[op.target], op.value[0]
    sent = conversation.messages[seq - 1]
    if op.kind == "edit":
        if op.value[1] == sent.content:
            return
        sent.texts.append(op.value[1])
    elif sent.recalled:
        return
    else:
        sent.recalled_by = op.user
        if seq in conversation.pins:
            conversation.pins.remove(seq)
            pins.show(model, op.target, sent)
    for member in conversation.members:
        if conversation.may_read(member, seq):
            model.emit(member, "MessageUpdated" if op.kind == "edit" else "MessageRecalled", op.target, sent)
            if conversation.newest(member) == seq:
                model.touch(member, op.target)


def receipts(model: SessionModel, name: str, sent: ModelMessage) -> dict[str, str]:
    """Return the receipt status of each recipient of a message."""
    found = dict.fromkeys(sorted(sent.recipients), "SENT")
    for user, kind, seq in model.acknowledgements[name]:
        if user in found and seq >= sent.seq:
            found[user] = max(found[user], kind, key=RANKS.index)
    return found


def delivery(model: SessionModel, user: str, name: str, sent: ModelMessage) -> Json | None:
    """Return the delivery summary that the API shows to the sender of a message."""
    if sent.system or sent.sender != user:
        return None
    statuses = list(receipts(model, name, sent).values())
    return {
        "status": min(statuses, key=RANKS.index) if statuses else "SENT",
        "recipientCount": len(statuses),
        "deliveredCount": sum(status != "SENT" for status in statuses),
        "readCount": sum(status == "READ" for status in statuses),
    }


def offline(model: SessionModel, user: str) -> set[tuple[str, int]]:
    """Return the conversation and seq of each message that none of a user's devices has received."""
    return {
        (name, sent.seq)
        for name in model.names(user)
        if name in model.conversations and model.is_valid(user, name)
        for sent in model.conversations[name].messages[: model.conversations[name].last_seq(user)]
        if sent.seq > model.session_for(user, name)["deliveredSeq"] and sent.sender != user and not sent.system
    }
