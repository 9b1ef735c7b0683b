"""Names of Redis keys. The hash tags keep all keys of a script on one node of a cluster."""

from __future__ import annotations

from store.base.ids import ConversationId, MessageId, UserId, partition_of

USER_KEYS = (
    "meta", "sessions", "index", "list", "mutes", "log", "routes", "pending", "loading", "lock", "fence", "queue"
)  # fmt: skip
"""A user's keys, as `_user.lua` names them."""


class Keys:
    """Key names under one prefix, so that several deployments can share a Redis, and one generation.

    A name holds for as long as its generation does: `Cache` sends none of another.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.space = prefix
        """What all names begin with but those of channels."""

    def enter(self, generation: int) -> None:
        """Names are of this generation from now on. `_user.lua` knows this form: no prefix has a slash."""
        self.space = f"{self.prefix}/{generation}"

    @property
    def epoch(self) -> str:
        """The mark of what Redis holds."""
        return f"{self.space}epoch"

    @property
    def sweeper(self) -> str:
        """Who looks into the outboxes."""
        return f"{self.space}sweeper"

    @property
    def mender(self) -> str:
        """Who looks through what was stored before Redis was lost."""
        return f"{self.space}mender"

    def user(self, user: UserId) -> tuple[str, ...]:
        """What a script on a user's keys is given: the first of USER_KEYS. It finds the others by that name, under the same hash
        tag."""
        return (f"{self.space}{{u:{user}}}:meta",)

    def of_user(self, user: UserId, name: str) -> str:
        """One of a user's keys."""
        return f"{self.space}{{u:{user}}}:{name}"

    def claim(self, user: UserId, key: str) -> str:
        """A user's claim of an idempotency key for a message."""
        return f"{self.space}{{u:{user}}}:key:{key}"

    def typing(self, user: UserId, conversation: ConversationId) -> str:
        """When a user's typing in a conversation was told."""
        return f"{self.space}{{u:{user}}}:typing:{conversation}"

    def conversation(self, conversation: ConversationId) -> tuple[str, ...]:
        """A conversation's keys in the order that `_conversation.lua` expects."""
        partition = partition_of(conversation)
        tag = f"{self.space}{{p:{partition}}}:"
        return (
            f"{tag}head:{conversation}",
            f"{tag}members:{conversation}",
            self.outbox(partition),
            f"{tag}loading:{conversation}",
        )

    def placed(self, conversation: ConversationId, message: MessageId) -> str:
        """That a message got a place not long ago."""
        return f"{self.space}{{p:{partition_of(conversation)}}}:placed:{message}"

    def outbox(self, partition: int) -> str:
        """A partition's stream of messages that are reserved and not yet delivered."""
        return f"{self.space}{{p:{partition}}}:outbox"

    def event_stream(self, token: str, name: str) -> str:
        """One of the keys about an event stream."""
        return f"{self.space}{{s:{token}}}:{name}"

    def channel(self, server: str) -> str:
        """What a server listens on."""
        return f"{self.prefix}server:{server}"

    def broadcast(self) -> str:
        """What all servers listen on."""
        return f"{self.prefix}servers"
