"""What groups become, and who is refused what: the contract's words, told apart from how the product decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api.client import Refusal
from tests.invariants.ops import Op
from tests.invariants.room_model import ADMIN, DISMISSED, DISSOLVED, MEMBER, OWNER, Room

if TYPE_CHECKING:
    from tests.invariants.session_model import SessionModel

GROUP_KINDS = ("invite", "remove", "leave", "transfer", "role", "update", "dismiss", "dissolve")

FORBIDDEN = Refusal("FORBIDDEN")


def refusal(model: SessionModel, op: Op) -> Refusal | None:
    """How an operation on a group, or a message, is refused; None where it is allowed. Refusal.field: None where the contract
    leaves it open."""
    if op.kind == "dissolve" and not op.target.startswith("g_"):
        return _undissolvable(model, op)
    room = model.rooms.get(op.target)
    if op.kind == "send" and op.target.startswith("p_"):
        return _badly_said(room, op) if room else None
    if room is None or not op.target.startswith("g_") or not room.knows(op.user):
        return Refusal("NOT_FOUND")
    if op.user not in room.members:
        return Refusal("NOT_A_MEMBER")
    return _CHECKS[op.kind](room, room.members[op.user], op)


def _undissolvable(model: SessionModel, op: Op) -> Refusal:
    if (op.user, op.target) not in model.kept:
        return Refusal("NOT_FOUND")
    return Refusal("PRIVATE_CANNOT_DELETE" if op.target.startswith("p_") else "INVALID_INPUT")


def _badly_said(room: Room, op: Op) -> Refusal | None:
    mentions, everybody, _text, reply = op.value
    if everybody and room.members[op.user] == MEMBER:
        return FORBIDDEN
    if not set(mentions) <= set(room.members):
        return Refusal("INVALID_INPUT", "mentions")
    if reply is not None and not room.may_read(op.user, reply):
        return Refusal("INVALID_INPUT", "replyToId")
    return None


def _check_send(room: Room, _role: str, op: Op) -> Refusal | None:
    return _badly_said(room, op)


def _check_free(_room: Room, _role: str, _op: Op) -> None:
    return None


def _check_owner(_room: Room, role: str, _op: Op) -> Refusal | None:
    return None if role == OWNER else FORBIDDEN


def _check_update(_room: Room, role: str, _op: Op) -> Refusal | None:
    return FORBIDDEN if role == MEMBER else None


def _check_leave(_room: Room, role: str, _op: Op) -> Refusal | None:
    return Refusal("OWNER_CANNOT_LEAVE") if role == OWNER else None


def _check_remove(room: Room, role: str, op: Op) -> Refusal | None:
    if role == MEMBER:
        return FORBIDDEN
    if op.value == op.user:
        return Refusal("INVALID_INPUT", "userId")
    if op.value not in room.members:
        return Refusal("NOT_A_MEMBER", "userId")
    removed = room.members[op.value]
    return FORBIDDEN if removed == OWNER or (role == ADMIN and removed == ADMIN) else None


def _check_transfer(room: Room, role: str, op: Op) -> Refusal | None:
    if role != OWNER:
        return FORBIDDEN
    if op.value == op.user:
        return Refusal("INVALID_INPUT", "userId")
    return None if op.value in room.members else Refusal("NOT_A_MEMBER", "userId")


def _check_role(room: Room, role: str, op: Op) -> Refusal | None:
    whom, wanted = op.value
    if role != OWNER:
        return FORBIDDEN
    if whom == op.user or wanted == OWNER:
        return Refusal("INVALID_INPUT")
    return None if whom in room.members else Refusal("NOT_A_MEMBER", "userId")


_CHECKS = {
    "send": _check_send,
    "invite": _check_free,
    "remove": _check_remove,
    "leave": _check_leave,
    "transfer": _check_transfer,
    "role": _check_role,
    "update": _check_update,
    "dismiss": _check_owner,
    "dissolve": _check_owner,
}


def change(model: SessionModel, op: Op) -> None:
    """Carries out a change of a group that is allowed."""
    room, name = model.rooms[op.target], op.target
    match op.kind:
        case "invite":
            new = [user for user in dict.fromkeys(op.value) if user not in room.members]
            if new:
                for user in new:
                    room.enter(user)
                model.tell(name, room.say(op.user, told=new))
                for user in new:
                    model.join(user, name)
                    model.move(user, name, why="MEMBERSHIP")
        case "remove" | "leave":
            gone = op.value if op.kind == "remove" else op.user
            room.go(gone)
            model.move(gone, name, why="MEMBERSHIP")
            model.tell(name, room.say(op.user, told=[gone]))
        case "transfer":
            room.members |= {op.user: MEMBER, op.value: OWNER}
            room.owner = op.value
            model.tell(name, room.say(op.user, told=[op.value]))
        case "role":
            whom, role = op.value
            room.members[whom] = role
        case "update":
            renamed = op.value.get("name") not in (None, room.name)
            room.name = op.value.get("name") or room.name
            room.picture = op.value.get("avatarUrl", room.picture)
            if op.value.get("historyVisibility"):
                room.full = op.value["historyVisibility"] == "FULL"
            if renamed:
                model.tell(name, room.say(op.user, told=[]))
        case "dismiss" | "dissolve":
            room.end(DISMISSED if op.kind == "dismiss" else DISSOLVED)
            for user in room.stays:
                model.move(user, name, why="DELETE")
