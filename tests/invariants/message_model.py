"""What becomes of messages after they were sent: edits, recalls, receipts, and who has not received them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api.client import Refusal
from tests.invariants.ops import Op
from tests.invariants.room_model import MEMBER, Json, Said

if TYPE_CHECKING:
    from tests.invariants.session_model import SessionModel

REVISIONS = ("edit", "recall")
RECALL_MS = 120_000

RANKS = ("SENT", "DELIVERED", "READ")


def refusal(model: SessionModel, op: Op) -> Refusal | None:
    """How an edit (value: seq and text) or a recall (value: seq) is refused; None where it is allowed."""
    room, seq = model.rooms[op.target], op.value[0]
    if not room.may_read(op.user, seq):
        return Refusal("NOT_FOUND", "messageId")
    if op.user not in room.members:
        return Refusal("NOT_A_MEMBER")
    said, moderates = room.said[seq - 1], room.members[op.user] not in ("", MEMBER)
    if said.system:
        return Refusal("INVALID_INPUT")
    if op.kind == "edit":
        if said.sender != op.user:
            return Refusal("FORBIDDEN")
        return Refusal("INVALID_INPUT") if said.recalled else None
    if said.sender != op.user and not moderates:
        return Refusal("FORBIDDEN")
    late = model.now - said.at > RECALL_MS
    return Refusal("RECALL_TIMEOUT") if late and not moderates and not said.recalled else None


def change(model: SessionModel, op: Op) -> None:
    """Carries out an edit or a recall that is allowed."""
    room, seq = model.rooms[op.target], op.value[0]
    said = room.said[seq - 1]
    if op.kind == "edit":
        if op.value[1] == said.content:
            return
        said.texts.append(op.value[1])
    elif said.recalled:
        return
    else:
        said.recalled = True
    for member in room.members:
        if room.may_read(member, seq):
            model.hear(member, "MessageUpdated" if op.kind == "edit" else "MessageRecalled", op.target, said)
            if room.newest(member) == seq:
                model.move(member, op.target)


def receipts(model: SessionModel, name: str, said: Said) -> dict[str, str]:
    """Each recipient of a message, with what became of it there."""
    found = dict.fromkeys(sorted(said.recipients), "SENT")
    for user, kind, seq in model.marks[name]:
        if user in found and seq >= said.seq:
            found[user] = max(found[user], kind, key=RANKS.index)
    return found


def delivery(model: SessionModel, user: str, name: str, said: Said) -> Json | None:
    """What the sender's tick shows."""
    if said.system or said.sender != user:
        return None
    statuses = list(receipts(model, name, said).values())
    return {
        "status": min(statuses, key=RANKS.index) if statuses else "SENT",
        "recipientCount": len(statuses),
        "deliveredCount": sum(status != "SENT" for status in statuses),
        "readCount": sum(status == "READ" for status in statuses),
    }


def offline(model: SessionModel, user: str) -> set[tuple[str, int]]:
    """Conversation and seq of what reached none of a user's devices."""
    return {
        (name, said.seq)
        for name in model.names(user)
        if name in model.rooms and model.valid(user, name)
        for said in model.rooms[name].said[: model.rooms[name].top(user)]
        if said.seq > model.session(user, name)["deliveredSeq"] and said.sender != user and not said.system
    }
