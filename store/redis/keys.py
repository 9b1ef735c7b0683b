"""Names of Redis keys. The hash tag of a name keeps all keys of a script on one node of a cluster."""

from __future__ import annotations

from store.base.ids import ConversationId, MessageId, UserId, encode_user, partition_of

USER_KEYS = (
    "meta", "sessions", "index", "list", "mutes", "log", "routes", "pending", "loading", "lock", "fence", "queue"
)  # fmt: skip
"""A user's keys, as `_user.lua` names them."""

CHANNEL_KEYS = ("channels", "channel_index", "channel_list", "channel_ticks", "channels_loading", "channels_pending")
"""A user's keys for sessions in channels, as `_channels.lua` names them."""


class Keys:
    """Key names of one generation under one prefix, so that several deployments can share a Redis.

    A name is valid as long as its generation: `RedisClient` refuses to send names of a former one.
    """

    def __init__(self, prefix: str) -> None:
        """Start without a generation."""
        self.prefix = prefix
        self.namespace = prefix
        """The beginning of all names except those of channels."""

    def enter(self, generation: int) -> None:
        """Use the names of a generation from now on."""
        # `_user.lua` relies on this form: no prefix contains a slash.
        self.namespace = f"{self.prefix}/{generation}"

    @property
    def epoch(self) -> str:
        """Key whose value changes when Redis loses its contents."""
        return f"{self.namespace}epoch"

    @property
    def sweeper_lock(self) -> str:
        """Key of the lock of the server that looks for incomplete deliveries in the outboxes."""
        return f"{self.namespace}sweeper"

    @property
    def loss_recovery_lock(self) -> str:
        """Key of the lock of the server that looks for incomplete deliveries in MongoDB after a loss of Redis."""
        return f"{self.namespace}mender"

    @property
    def server_times(self) -> str:
        """Key of the times at which servers were last heard from."""
        return f"{self.namespace}{{servers}}:times"

    def waiting_for_index(self, number: int) -> str:
        """Return one of the keys of messages that wait for the index. number: which of them, from 0."""
        return f"{self.namespace}{{i:{number}}}:waiting"

    @property
    def indexing_lock(self) -> str:
        """Key of the lock of the server that indexes messages which other servers left."""
        return f"{self.namespace}indexer"

    def push_queue(self, name: str, part: int) -> tuple[str, str, str]:
        """Return the keys of one part of a queue of pushes: due times, ends of leases, records. See `push_take.lua`."""
        tag = f"{self.namespace}{{q:{part}}}:{name}:"
        return f"{tag}due", f"{tag}taken", f"{tag}records"

    def quiet_pushes(self, part: int) -> str:
        """Return the key of the times of users' last quiet pushes."""
        return f"{self.namespace}{{q:{part}}}:quiet"

    def webhook_events(self, number: int, *, is_recovery: bool = False) -> str:
        """Return one of the streams of events for outgoing webhooks.

        number: which of them, from 0. is_recovery: the one for events whose notes were lost.
        """
        return f"{self.namespace}{{h:{number}}}:{'recovered' if is_recovery else 'events'}"

    @property
    def voice_checks(self) -> str:
        """Key of the workspaces with voice states, by the time of the next check."""
        return f"{self.namespace}{{voice}}:checks"

    def user(self, user: UserId) -> tuple[str, ...]:
        """Return the key that scripts on a user's keys get: the first of USER_KEYS.

        The script derives the others from it, under the same hash tag.
        """
        return (self.of_user(user, "meta"),)

    def of_user(self, user: UserId, name: str) -> str:
        """Return one of a user's keys."""
        return f"{self.namespace}{{u:{encode_user(user)}}}:{name}"

    def claim(self, user: UserId, key: str) -> str:
        """Return the key of a user's claim of an idempotency key."""
        return f"{self.namespace}{{u:{encode_user(user)}}}:key:{key}"

    def presence(self, user: UserId) -> tuple[str, str]:
        """Return the keys of a user's presence: the record, and the servers that show it. See `_presence.lua`."""
        return self.of_user(user, "presence"), self.of_user(user, "pwatch")

    def notification_settings(self, user: UserId) -> str:
        """Return the key of a user's notification settings."""
        return self.of_user(user, "notifications")

    def blocks(self, user: UserId) -> str:
        """Return the key of the users that a user has blocked."""
        return self.of_user(user, "blocks")

    def typing(self, user: UserId, conversation: ConversationId) -> str:
        """Return the key that exists for a while after a user's typing in a conversation was announced."""
        return f"{self.namespace}{{u:{encode_user(user)}}}:typing:{conversation}"

    def head(self, conversation: ConversationId) -> str:
        """Return the key of a conversation's head: the first of `conversation`."""
        return f"{self.namespace}{{p:{partition_of(conversation)}}}:head:{conversation}"

    def conversation(self, conversation: ConversationId) -> tuple[str, ...]:
        """Return a conversation's keys in the order that `_conversation.lua` expects."""
        partition = partition_of(conversation)
        tag = f"{self.namespace}{{p:{partition}}}:"
        return (
            f"{tag}head:{conversation}",
            f"{tag}members:{conversation}",
            self.outbox(partition),
            f"{tag}loading:{conversation}",
        )

    def reservation(self, conversation: ConversationId, message: MessageId) -> str:
        """Return the key that exists for a while after a message was reserved."""
        return f"{self.namespace}{{p:{partition_of(conversation)}}}:placed:{message}"

    def last_sent(self, channel: ConversationId, user: UserId) -> str:
        """Return the key with the time of a user's last message in a channel with slow mode (ms)."""
        return f"{self.namespace}{{p:{partition_of(channel)}}}:sent:{channel} {encode_user(user)}"

    def watchers(self, conversation: ConversationId) -> tuple[str, str]:
        """Return the keys of a conversation's watchers: `_watchers.lua` describes them."""
        tag = f"{self.namespace}{{p:{partition_of(conversation)}}}:"
        return f"{tag}watchers:{conversation}", f"{tag}watching:{conversation}"

    def event_window(self, conversation: ConversationId, subject: str) -> tuple[str, str]:
        """Return the keys that bound the events about a subject in a conversation: `claim_window.lua` describes them.

        `subject`: its kind and name.
        """
        tag = f"{self.namespace}{{p:{partition_of(conversation)}}}:"
        return f"{tag}window:{subject}", f"{tag}due:{subject}"

    def outbox(self, partition: int) -> str:
        """Return the key of a partition's outbox, a stream."""
        return f"{self.namespace}{{p:{partition}}}:outbox"

    def clock(self, owner: str) -> tuple[str, ...]:
        """Return the key that scripts on a shared clock get. They derive the others from it.

        `owner`: a workspace. The tag is its part of the ids inside it.
        """
        return (self.of_clock(owner, "meta"),)

    def of_clock(self, owner: str, name: str) -> str:
        """Return one of the keys of a shared clock: meta, log, recent, changed, members, entries, routes."""
        return f"{self.namespace}{{w:{owner.removeprefix('w_')}}}:{name}"

    def event_stream(self, token: str, name: str) -> str:
        """Return one of the keys of an event stream."""
        return f"{self.namespace}{{s:{token}}}:{name}"

    def host_turn(self, host: str) -> str:
        """Return the key that exists while a site is being asked for previews. `host`: a hash of its name."""
        return f"{self.namespace}{{h:{host}}}:turn"

    def channel(self, server: str) -> str:
        """Return the channel that one server listens to."""
        return f"{self.prefix}server:{server}"

    def broadcast(self) -> str:
        """Return the channel that all servers listen to."""
        return f"{self.prefix}servers"
