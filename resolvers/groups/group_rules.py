"""Rights of a group's members, by their role."""

from __future__ import annotations

from resolvers.base.errors import Forbidden, InvalidInput, NotAMember, OwnerCannotLeave
from store.conversations.conversation import Member

OWNER = "OWNER"
ADMIN = "ADMIN"
MEMBER = "MEMBER"


def is_moderator(member: Member) -> bool:
    """Return whether a member is OWNER or ADMIN."""
    return member.role in (OWNER, ADMIN)


def check_moderator(actor: Member) -> None:
    """Raise Forbidden unless the actor is OWNER or ADMIN."""
    if not is_moderator(actor):
        raise Forbidden("only the owner or an admin of the group may do this")


def check_owner(actor: Member) -> None:
    """Raise Forbidden unless the actor is the OWNER."""
    if actor.role != OWNER:
        raise Forbidden("only the owner of the group may do this")


def check_target(actor: Member, user: str, target: Member | None) -> Member:
    """Return the membership of another user that the actor changes.

    Raises InvalidInput if the user is the actor, NotAMember if the user is not a member.
    """
    if user == actor.user:
        raise InvalidInput("you can't do this to yourself; name another member", field="userId")
    if target is None or not target.is_current:
        raise NotAMember("this user is not a member of the group", field="userId")
    return target


def check_removal(actor: Member, user: str, target: Member | None) -> None:
    """Check that the actor may remove a member.

    Raises Forbidden if the actor is a MEMBER, if the target is the OWNER, or if both are ADMIN. Raises the errors of
    `check_target`.
    """
    check_moderator(actor)
    removed = check_target(actor, user, target)
    if removed.role == OWNER or (removed.role == ADMIN and actor.role != OWNER):
        raise Forbidden("nobody can remove the owner, and only the owner can remove an admin", field="userId")


def check_leaving(actor: Member) -> None:
    """Raise OwnerCannotLeave for the OWNER."""
    if actor.role == OWNER:
        raise OwnerCannotLeave("the owner can't leave; transfer the group to another owner or dismiss it first")
