"""Who looks at what is being executed, and what of them it depended on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from resolvers.base.errors import Unauthenticated
from resolvers.users.callers import Caller
from store.base.ids import UserId

NEEDS_TOKEN = (
    "this needs a token: Authorization: Bearer <token>, as a header, on a WebSocket in the payload of connection_init"
)
"""What anybody is told who asks without saying who they are: a client that put the token elsewhere learns where it belongs."""


class Question(Protocol):
    """Something that an execution asked about its viewer. Hashable."""

    def answer(self, caller: Caller) -> Hashable:
        """What it is for one who looks. No two whom the execution would show different things answer alike."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """Who it is: everybody answers for themselves."""

    def answer(self, caller: Caller) -> Hashable:
        return caller.user_id, caller.role


@dataclass(frozen=True, slots=True)
class Is:
    """Whether it is a certain user."""

    user: UserId

    def answer(self, caller: Caller) -> Hashable:
        return caller.user_id == self.user


@dataclass(frozen=True, slots=True, eq=False)
class Among:
    """Whether it is one of certain users."""

    users: frozenset[UserId]

    def answer(self, caller: Caller) -> Hashable:
        return caller.user_id in self.users


WHOLE = Whole()


class Viewer:
    """The one way for a resolver to learn who looks. All it learnt is in `asked`: the outcome is the same for everybody who
    answers those questions alike, which is what sharing it among subscribers rests on."""

    __slots__ = ("_caller", "asked", "is_one_of_many")

    def __init__(self, caller: Caller | None, *, is_one_of_many: bool = False) -> None:
        """`is_one_of_many`: others will be shown the same event, so a question that many answer alike is better than asking who
        it is."""
        self._caller = caller
        self.is_one_of_many = is_one_of_many
        self.asked: dict[Question, None] = {}

    @property
    def caller(self) -> Caller | None:
        """Whose token came with the request, if one did."""
        self.asked[WHOLE] = None
        return self._caller

    @property
    def id(self) -> UserId:
        """Who asks. Raises Unauthenticated where nobody does."""
        self.asked[WHOLE] = None
        return self._known().user_id

    def is_(self, user: UserId) -> bool:
        """Whether it is this user. Raises Unauthenticated."""
        return self._ask(Is(user))

    def is_among(self, users: frozenset[UserId]) -> bool:
        """Whether it is one of these. Raises Unauthenticated."""
        return self._ask(Among(users))

    def _ask(self, question: Is | Among) -> bool:
        self.asked[question] = None
        return bool(question.answer(self._known()))

    def _known(self) -> Caller:
        if self._caller is None:
            raise Unauthenticated(NEEDS_TOKEN)
        return self._caller
