"""Model of the contract's rules, apart from the code under test: the outcome for each caller in each place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from store.workspaces.permissions import EVERYTHING, NOTHING, Permission
from tests.api.client import Json

P = Permission
BASE = P.VIEW_CHANNEL | P.READ_HISTORY


class Caller(StrEnum):
    """Users who try an operation. They differ by the permission that the operation is about."""

    ANONYMOUS = "nobody signed in"
    OUTSIDER = "an outsider"
    FORMER = "a former member"
    TIMED_OUT = "a member with every permission but ADMINISTRATOR, in a time-out"
    PLAIN = "a member who may see and read channels"
    EXACT = "a member with just the permission"
    ALL_BUT = "a member with every permission but this one and ADMINISTRATOR"
    ADMINISTRATOR = "an administrator"
    OWNER = "the owner"


OUTSIDE = (Caller.OUTSIDER, Caller.FORMER)
WITH_EVERYTHING = (Caller.ADMINISTRATOR, Caller.OWNER)


class Kind(StrEnum):
    """Kinds of channels and categories."""

    NONE = "no overwrite"
    DENIED_EVERYONE = "denied to everyone"
    DENIED_ROLE = "denied to the caller's role"
    DENIED_USER = "denied to the caller"
    ALLOWED_USER = "denied to the role and allowed to the caller"
    ALLOWED_ROLE = "denied to everyone and allowed to the caller's role"
    ALLOWED_EVERYONE = "allowed to everyone"
    ARCHIVED = "archived"
    HIDDEN = "PRIVATE, and the caller is not in it"


DENIED = (Kind.DENIED_EVERYONE, Kind.DENIED_ROLE, Kind.DENIED_USER)
ALLOWED = (Kind.ALLOWED_USER, Kind.ALLOWED_ROLE, Kind.ALLOWED_EVERYONE)


@dataclass(frozen=True)
class Place:
    """A channel or category: its overwrites are about one permission."""

    kind: Kind = Kind.NONE
    permission: Permission = NOTHING
    is_private: bool = False
    """A PRIVATE channel. All members of the workspace are in it, unless its kind is HIDDEN."""


NO_TOKEN, INVISIBLE, REFUSED, NULL, EMPTY, OK = "UNAUTHENTICATED", "NOT_FOUND", "FORBIDDEN", "null", "empty", "ok"
ARCHIVED, INVALID = "ARCHIVED", "INVALID_INPUT"


@dataclass(frozen=True)
class Operation:
    """A query, mutation or subscription about a workspace, and what it needs there.

    Attributes:
        variables: Texts with @ stand for ids: @channel is the place, @target a member who sees all channels.
        needs: The permission that it is about. NOTHING: every member may do it.
        also: Other permissions that it needs.
        where: Its place: the workspace, a channel, a PRIVATE channel or a category.
        outside: The outcome for users who can't see the place.
        refused: The outcome without the permission.
        done: The outcome for users with the permission.
        owner: The outcome for the owner, if it is another one.
        archived: The outcome in an archived channel for users who see it; None: as in other channels.
        archived_comes_last: In an archived channel, users without the permission get FORBIDDEN.
        fresh: The kind of object that each successful case needs for itself, because the operation removes it.
        undo: A mutation of @target that takes it back, if later cases need the state before.
    """

    document: str
    variables: Json
    needs: Permission = NOTHING
    also: Permission = NOTHING
    where: str = "workspace"
    outside: str = INVISIBLE
    refused: str = REFUSED
    done: str = OK
    owner: str | None = None
    archived: str | None = None
    archived_comes_last: bool = False
    fresh: str = ""
    undo: str = ""
    is_for_owner: bool = False
    is_for_services: bool = False

    @property
    def in_channel(self) -> bool:
        return self.where in ("channel", "private")

    def places(self) -> list[Place]:
        """Return the places where the operation is tried."""
        if self.where == "workspace":
            return [Place()]
        private = self.where == "private"
        about = {self.needs} if self.where == "category" else {self.needs, P.VIEW_CHANNEL}
        places = [Place(is_private=private)]
        places += [Place(kind, one, private) for one in sorted(about - {NOTHING}) for kind in (*DENIED, *ALLOWED)]
        if self.in_channel:
            places += [Place(Kind.HIDDEN, is_private=True), Place(Kind.ARCHIVED, is_private=private)]
        return places


def permissions_of(caller: Caller, about: Permission, also: Permission) -> Permission:
    """Return the permissions of the only role of a member."""
    if caller in WITH_EVERYTHING:
        return P.ADMINISTRATOR
    if caller is Caller.TIMED_OUT:
        return EVERYTHING & ~P.ADMINISTRATOR
    if caller is Caller.ALL_BUT:
        return EVERYTHING & ~(P.ADMINISTRATOR | about)
    if caller is Caller.EXACT:
        return BASE | about | also
    return BASE


def expected(operation: Operation, caller: Caller, place: Place) -> str:
    """Return the outcome that the contract promises."""

    def may(permission: Permission) -> bool:
        if caller in WITH_EVERYTHING:
            return True
        if caller is Caller.TIMED_OUT and permission not in BASE:
            return False
        if place.permission == permission:
            return place.kind in ALLOWED
        return permission in permissions_of(caller, operation.needs, operation.also)

    if caller is Caller.ANONYMOUS:
        return NO_TOKEN
    if operation.is_for_services:
        return REFUSED
    if caller in OUTSIDE or place.kind is Kind.HIDDEN:
        return operation.outside
    if operation.in_channel and not may(P.VIEW_CHANNEL):
        return operation.outside
    archived = operation.archived if place.kind is Kind.ARCHIVED else None
    if archived is not None and not operation.archived_comes_last:
        return archived
    if operation.is_for_owner and caller is not Caller.OWNER:
        return REFUSED
    if not all(may(one) for one in operation.needs | operation.also):
        return operation.refused
    if archived is not None:
        return archived
    return operation.owner or operation.done if caller is Caller.OWNER else operation.done
