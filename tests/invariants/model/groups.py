"""The rules of groups, and of sending, in the words of the contract and independent of the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api.client import Refusal
from tests.invariants.model.conversation import ADMIN, DISMISSED, DISSOLVED, MEMBER, OWNER, ModelConversation
from tests.invariants.model.operation import Op

if TYPE_CHECKING:
    from tests.invariants.model.sessions import SessionModel

GROUP_KINDS = ("invite", "remove", "leave", "transfer", "role", "update", "dismiss", "dissolve")

FORBIDDEN = Refusal("FORBIDDEN")


def refusal(model: SessionModel, op: Op) -> Refusal | None:
    """Return the error of an operation on a group or of a send, or None if it is allowed.

    The field of the error is None where the contract leaves it open.
    """
    if op.kind == "dissolve" and not op.target.startswith("g_"):
        return _dissolve_refusal(model, op)
    conversation = model.conversations.get(op.target)
    if op.kind == "send" and op.target.startswith("p_"):
        return _send_refusal(conversation, op) if conversation else None
    if conversation is None or not op.target.startswith("g_") or not conversation.has_had(op.user):
        return Refusal("NOT_FOUND")
    if op.user not in conversation.members:
        return Refusal("NOT_A_MEMBER")
    return _CHECKS[op.kind](conversation, conversation.members[op.user], op)


def _dissolve_refusal(model: SessionModel, op: Op) -> Refusal:
    if (op.user, op.target) not in model.sessions:
        return Refusal("NOT_FOUND")
    return Refusal("PRIVATE_CANNOT_DELETE" if op.target.startswith("p_") else "INVALID_INPUT")


def _send_refusal(conversation: ModelConversation, op: Op) -> Refusal | None:
    mentions, mentions_all, _text, reply = op.value
    if mentions_all and conversation.members[op.user] == MEMBER:
        return FORBIDDEN
    if not set(mentions) <= set(conversation.members):
        return Refusal("INVALID_INPUT", "mentions")
    if reply is not None and not conversation.may_read(op.user, reply):
        return Refusal("INVALID_INPUT", "replyToId")
    return None


def _check_send(conversation: ModelConversation, _role: str, op: Op) -> Refusal | None:
    return _send_refusal(conversation, op)


def _check_nothing(_conversation: ModelConversation, _role: str, _op: Op) -> None:
    return None


def _check_owner(_conversation: ModelConversation, role: str, _op: Op) -> Refusal | None:
    return None if role == OWNER else FORBIDDEN


def _check_update(_conversation: ModelConversation, role: str, _op: Op) -> Refusal | None:
    return FORBIDDEN if role == MEMBER else None


def _check_leave(_conversation: ModelConversation, role: str, _op: Op) -> Refusal | None:
    return Refusal("OWNER_CANNOT_LEAVE") if role == OWNER else None


def _check_remove(conversation: ModelConversation, role: str, op: Op) -> Refusal | None:
    if role == MEMBER:
        return FORBIDDEN
    if op.value == op.user:
        return Refusal("INVALID_INPUT", "userId")
    if op.value not in conversation.members:
        return Refusal("NOT_A_MEMBER", "userId")
    removed = conversation.members[op.value]
    return FORBIDDEN if removed == OWNER or (role == ADMIN and removed == ADMIN) else None


def _check_transfer(conversation: ModelConversation, role: str, op: Op) -> Refusal | None:
    if role != OWNER:
        return FORBIDDEN
    if op.value == op.user:
        return Refusal("INVALID_INPUT", "userId")
    return None if op.value in conversation.members else Refusal("NOT_A_MEMBER", "userId")


def _check_role(conversation: ModelConversation, role: str, op: Op) -> Refusal | None:
    user, wanted = op.value
    if role != OWNER:
        return FORBIDDEN
    if user == op.user or wanted == OWNER:
        return Refusal("INVALID_INPUT")
    return None if user in conversation.members else Refusal("NOT_A_MEMBER", "userId")


_CHECKS = {
    "send": _check_send,
    "invite": _check_nothing,
    "remove": _check_remove,
    "leave": _check_leave,
    "transfer": _check_transfer,
    "role": _check_role,
    "update": _check_update,
    "dismiss": _check_owner,
    "dissolve": _check_owner,
}


def change(model: SessionModel, op: Op) -> None:
    """Apply a change of a group that is allowed."""
    conversation, name = model.conversations[op.target], op.target
    match op.kind:
        case "invite":
            new = [user for user in dict.fromkeys(op.value) if user not in conversation.members]
            if new:
                for user in new:
                    conversation.add_member(user)
                model.announce(name, conversation.add_event(op.user, "MEMBERS_JOINED", *new))
                for user in new:
                    model.join(user, name)
                    model.touch(user, name, why="MEMBERSHIP")
        case "remove" | "leave":
            gone = op.value if op.kind == "remove" else op.user
            conversation.remove_member(gone)
            model.touch(gone, name, why="MEMBERSHIP")
            kind = "MEMBER_REMOVED" if op.kind == "remove" else "MEMBER_LEFT"
            model.announce(name, conversation.add_event(op.user, kind, gone))
        case "transfer":
            conversation.members |= {op.user: MEMBER, op.value: OWNER}
            conversation.owner = op.value
            model.announce(name, conversation.add_event(op.user, "OWNER_CHANGED", op.value))
            model.change_group(name)
        case "role":
            user, role = op.value
            if conversation.members[user] != role:
                conversation.members[user] = role
                model.change_group(name)
        case "update":
            before = conversation.shared_group()
            renamed = op.value.get("name") not in (None, conversation.name)
            conversation.name = op.value.get("name") or conversation.name
            conversation.avatar_url = op.value.get("avatarUrl", conversation.avatar_url)
            if op.value.get("historyVisibility"):
                conversation.full = op.value["historyVisibility"] == "FULL"
            if op.value.get("metadata") is not None:
                conversation.metadata = op.value["metadata"]
            if renamed:
                model.announce(name, conversation.add_event(op.user, "RENAMED", text=conversation.name))
            if conversation.shared_group() != before:
                model.change_group(name)
        case "dismiss" | "dissolve":
            conversation.end(DISMISSED if op.kind == "dismiss" else DISSOLVED)
            for user in conversation.intervals:
                model.touch(user, name, why="DELETE")
