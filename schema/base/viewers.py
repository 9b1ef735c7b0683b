"""The viewer: the user who asks. Records which facts about the viewer a result depends on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from resolvers.base.errors import Unauthenticated
from resolvers.users.callers import Caller
from store.base.ids import ConversationId, UserId
from store.channels.channel_rights import ChannelRightsFinder
from store.reactions.reaction_summary import ReactionSummary
from subscriptions.blocks.subscriber_blocks import SubscriberBlocks

NEEDS_TOKEN = (
    "this needs a token: Authorization: Bearer <token>, as a header, on a WebSocket in the payload of connection_init"
)
"""The error message for requests without a token. It also says where a token belongs."""


class ViewerDependency(Protocol):
    """A fact about the viewer that an execution used. Hashable."""

    def value_for(self, caller: Caller) -> Hashable:
        """Return the fact for one caller. Callers with equal values get the same result."""
        ...


@dataclass(frozen=True, slots=True)
class ViewerIdentity:
    """The viewer's identity: different for every user, and for every caller who acts for a user."""

    def value_for(self, caller: Caller) -> Hashable:
        """Return the caller's id and role, and who acts for them."""
        return caller.user_id, caller.role, caller.acted_by


@dataclass(frozen=True, slots=True)
class ViewerIsUser:
    """True if the viewer is a certain user."""

    user: UserId

    def value_for(self, caller: Caller) -> Hashable:
        """Compare the caller with the user."""
        return caller.user_id == self.user


@dataclass(frozen=True, slots=True, eq=False)
class ViewerIsAmong:
    """True if the viewer is one of certain users."""

    users: frozenset[UserId]

    def value_for(self, caller: Caller) -> Hashable:
        """Look the caller up in the users."""
        return caller.user_id in self.users


@dataclass(frozen=True, slots=True)
class ViewerHasReacted:
    """True if the viewer is one of those who reacted with an emoji; None if the summary does not tell."""

    summary: ReactionSummary

    def value_for(self, caller: Caller) -> Hashable:
        """Look the caller up in the summary."""
        return self.summary.has(caller.user_id)


@dataclass(frozen=True, slots=True)
class ViewerMayRead:
    """True if the viewer may read the message at a seq of a channel, as far as this process knows their rights."""

    rights: ChannelRightsFinder
    channel: ConversationId
    seq: int

    def value_for(self, caller: Caller) -> Hashable:
        """Judge the caller's rights."""
        return self.rights.may_read(caller.user_id, self.channel, self.seq)


@dataclass(frozen=True, slots=True)
class ViewerHasBlocked:
    """True if the viewer, who has a subscription here, has blocked a user."""

    subscriber_blocks: SubscriberBlocks
    user: UserId

    def value_for(self, caller: Caller) -> Hashable:
        """Look the user up in the caller's list."""
        return self.subscriber_blocks.has_blocked(caller.user_id, self.user)


IDENTITY = ViewerIdentity()


class TrackedViewer:
    """The only access of resolvers to the viewer. If it is shared, records every fact that they use in `dependencies`.

    The result is the same for all viewers with the same values of the dependencies, so subscribers can share results.
    """

    __slots__ = ("_caller", "dependencies", "is_shared", "values")

    def __init__(self, caller: Caller | None, *, is_shared: bool = False) -> None:
        """Create a viewer.

        Args:
            caller: None without a token.
            is_shared: Other viewers may get the same result. Resolvers then prefer facts that are equal for many
                viewers to the viewer's identity.
        """
        self._caller = caller
        self.is_shared = is_shared
        self.dependencies: dict[ViewerDependency, None] = {}
        self.values = 0
        """Values in the results of an event's executions for the viewer."""

    @property
    def caller(self) -> Caller | None:
        """The caller that the request's token names; None without a token."""
        self._depend_on(IDENTITY)
        return self._caller

    @property
    def id(self) -> UserId:
        """The viewer's user id. Raises Unauthenticated without a token."""
        self._depend_on(IDENTITY)
        return self._authenticated().user_id

    def is_user(self, user: UserId) -> bool:
        """Return True if the viewer is this user. Raises Unauthenticated without a token."""
        if self.is_shared:
            self._depend_on(ViewerIsUser(user))
        return self._authenticated().user_id == user

    def is_among(self, users: frozenset[UserId]) -> bool:
        """Return True if the viewer is one of these users. Raises Unauthenticated without a token."""
        if self.is_shared:
            self._depend_on(ViewerIsAmong(users))
        return self._authenticated().user_id in users

    def has_reacted(self, summary: ReactionSummary) -> bool | None:
        """Return whether the viewer is one of those who reacted with an emoji; None if the summary does not tell.

        Raises Unauthenticated without a token.
        """
        if self.is_shared:
            self._depend_on(ViewerHasReacted(summary))
        return summary.has(self._authenticated().user_id)

    def has_blocked(self, subscriber_blocks: SubscriberBlocks, user: UserId) -> bool:
        """Return True if the viewer of an event has blocked a user. Raises Unauthenticated without a token."""
        fact = ViewerHasBlocked(subscriber_blocks, user)
        if self.is_shared:
            self._depend_on(fact)
        return bool(fact.value_for(self._authenticated()))

    def may_read_in(self, rights: ChannelRightsFinder, channel: ConversationId, seq: int) -> bool:
        """Return True if the viewer is known to be able to read the message at a seq of a channel.

        Raises Unauthenticated without a token.
        """
        fact = ViewerMayRead(rights, channel, seq)
        if self.is_shared:
            self._depend_on(fact)
        return bool(fact.value_for(self._authenticated()))

    def _depend_on(self, dependency: ViewerDependency) -> None:
        if self.is_shared:
            self.dependencies[dependency] = None

    def _authenticated(self) -> Caller:
        if self._caller is None:
            raise Unauthenticated(NEEDS_TOKEN)
        return self._caller
