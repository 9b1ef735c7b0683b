"""What members of a group may do, by their role: plain functions on memberships."""

from __future__ import annotations

from resolvers.base.errors import Forbidden, InvalidInput, NotAMember, OwnerCannotLeave
from store.conversations.conversation import Member

OWNER = "OWNER"
ADMIN = "ADMIN"
MEMBER = "MEMBER"


def is_moderator(member: Member) -> bool:
    """Whether a member is OWNER or ADMIN."""
    return member.role in (OWNER, ADMIN)


def check_moderator(actor: Member) -> None:
    """Raises Forbidden unless the actor is OWNER or ADMIN."""
    if not is_moderator(actor):
        raise Forbidden("only the owner or an admin of the group may do this")


def check_owner(actor: Member) -> None:
    """Raises Forbidden unless the actor is the OWNER."""
    if actor.role != OWNER:
        raise Forbidden("only the owner of the group may do this")


def check_target(actor: Member, user: str, target: Member | None) -> Member:
    """The membership of somebody else whom the actor acts on. Raises InvalidInput for the actor, NotAMember for who is none."""
    if user == actor.user:
        raise InvalidInput("this can't be done to oneself", field="userId")
    if target is None or not target.is_current:
        raise NotAMember("that user is no member of the group", field="userId")
    return target


def check_removal(actor: Member, user: str, target: Member | None) -> None:
    """Raises Forbidden for who may remove nobody, or not this one: nobody the OWNER, no ADMIN an ADMIN."""
    check_moderator(actor)
    removed = check_target(actor, user, target)
    if removed.role == OWNER or (removed.role == ADMIN and actor.role != OWNER):
        raise Forbidden("nobody removes the owner, and only the owner removes an admin", field="userId")


def check_leaving(actor: Member) -> None:
    """Raises OwnerCannotLeave."""
    if actor.role == OWNER:
        raise OwnerCannotLeave("the owner can't leave: make somebody else the owner, or dismiss the group")
