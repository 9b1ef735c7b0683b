"""Names of Redis keys. The hash tag of a name keeps all keys of a script on one node of a cluster."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence

from store.base.ids import ConversationId, MessageId, UserId, encode_user, partition_of

USER_KEYS = (
    "meta", "sessions", "index", "list", "mutes", "log", "routes", "pending", "loading", "lock", "fence", "queue"
)  # fmt: skip
"""A user's keys, as `_user.lua` names them."""

CHANNEL_KEYS = ("channels", "channel_index", "channel_list", "channel_ticks", "channels_loading", "channels_pending")
"""A user's keys for sessions in channels, as `_channels.lua` names them."""


SLOTS = 16_384
"""Slots of a Redis Cluster. The hash tag of a key's name decides which slot the key is in."""

_LAST_SLOT = SLOTS - 1


def slot_of_tag(tag: str) -> int:
    """Return the slot of the keys with a hash tag."""
    return crc_hqx(tag.encode(), 0) & _LAST_SLOT


def user_tag(user: UserId) -> str:
    """Return the hash tag of a user's keys."""
    return f"u:{encode_user(user)}"


def conversation_tag(conversation: ConversationId) -> str:
    """Return the hash tag of a conversation's keys."""
    return f"p:{partition_of(conversation)}"


class Keys:
    """Key names of the present generation under one prefix, so that several deployments can share a Redis.

    In a cluster, slots may have different generations. The hash tag of a name decides which one it has. Names without a
    hash tag have the newest one. A name is valid as long as its generation: `RedisClient` refuses to send names of a
    former one.
    """

    def __init__(self, prefix: str) -> None:
        """Start without a generation."""
        self.prefix = prefix
        self.namespace = prefix
        """Prefix of names without a hash tag; of all names if all slots have the same generation."""
        self._by_slot: Sequence[str] | None = None
        """Prefix of the names of each slot; None if all slots have the same generation."""
        self.is_uniform = True
        """True if all slots have the same generation."""

    def enter(self, generation: int, by_slot: Sequence[int] | None = None) -> None:
        """Use the names of a generation.

        by_slot: the generation of each slot, if not all of them have the newest one.
        """
        # `_user.lua` relies on this form: no prefix contains a slash.
        self.namespace = f"{self.prefix}/{generation}"
        self.is_uniform = by_slot is None
        if by_slot is None:
            self._by_slot = None
        else:
            names = {number: f"{self.prefix}/{number}" for number in set(by_slot)}
            self._by_slot = [names[number] for number in by_slot]

    def _namespace_of(self, tag: str) -> str:
        """Return the beginning of the names with a hash tag, which follows in braces."""
        by_slot = self._by_slot
        return self.namespace if by_slot is None else by_slot[crc_hqx(tag.encode(), 0) & _LAST_SLOT]

    def _begin(self, tag: str) -> str:
        """Return the beginning of the names with a hash tag, with the tag and the colon after it."""
        return f"{self._namespace_of(tag)}{{{tag}}}:"

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
        return f"{self._begin('servers')}times"

    def waiting_for_index(self, number: int) -> str:
        """Return one of the keys of messages that wait for the index. number: which of them, from 0."""
        return f"{self._begin(f'i:{number}')}waiting"

    @property
    def indexing_lock(self) -> str:
        """Key of the lock of the server that indexes messages which other servers left."""
        return f"{self.namespace}indexer"

    def push_queue(self, name: str, part: int) -> tuple[str, str, str]:
        """Return the keys of one part of a queue of pushes: due times, ends of leases, records. See `push_take.lua`."""
        tag = f"{self._begin(f'q:{part}')}{name}:"
        return f"{tag}due", f"{tag}taken", f"{tag}records"

    def quiet_pushes(self, part: int) -> str:
        """Return the key of the times of users' last quiet pushes."""
        return f"{self._begin(f'q:{part}')}quiet"

    def webhook_events(self, number: int, *, is_recovery: bool = False) -> str:
        """Return one of the streams of events for outgoing webhooks.

        number: which of them, from 0. is_recovery: the one for events whose notes were lost.
        """
        return f"{self._begin(f'h:{number}')}{'recovered' if is_recovery else 'events'}"

    @property
    def voice_checks(self) -> str:
        """Key of the workspaces with voice states, by the time of the next check."""
        return f"{self._begin('voice')}checks"

    def user(self, user: UserId) -> tuple[str, ...]:
        """Return the key that scripts on a user's keys get: the first of USER_KEYS.

        The script derives the others from it, under the same hash tag.
        """
        name = encode_user(user)
        space = self.namespace if self._by_slot is None else self._namespace_of(f"u:{name}")
        return (f"{space}{{u:{name}}}:meta",)

    def of_user(self, user: UserId, name: str) -> str:
        """Return one of a user's keys."""
        if self._by_slot is None:
            return f"{self.namespace}{{u:{encode_user(user)}}}:{name}"
        return f"{self._begin(f'u:{encode_user(user)}')}{name}"

    def claim(self, user: UserId, key: str) -> str:
        """Return the key of a user's claim of an idempotency key."""
        return f"{self._begin(f'u:{encode_user(user)}')}key:{key}"

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
        return f"{self._begin(f'u:{encode_user(user)}')}typing:{conversation}"

    def head(self, conversation: ConversationId) -> str:
        """Return the key of a conversation's head: the first of `conversation`."""
        partition = partition_of(conversation)
        space = self.namespace if self._by_slot is None else self._namespace_of(f"p:{partition}")
        return f"{space}{{p:{partition}}}:head:{conversation}"

    def conversation(self, conversation: ConversationId) -> tuple[str, ...]:
        """Return a conversation's keys in the order that `_conversation.lua` expects."""
        partition = partition_of(conversation)
        space = self.namespace if self._by_slot is None else self._namespace_of(f"p:{partition}")
        tag = f"{space}{{p:{partition}}}:"
        return (
            f"{tag}head:{conversation}",
            f"{tag}members:{conversation}",
            f"{tag}outbox",
            f"{tag}loading:{conversation}",
        )

    def reservation(self, conversation: ConversationId, message: MessageId) -> str:
        """Return the key that exists for a while after a message was reserved."""
        return f"{self._begin(f'p:{partition_of(conversation)}')}placed:{message}"

    def last_sent(self, channel: ConversationId, user: UserId) -> str:
        """Return the key with the time of a user's last message in a channel with slow mode (ms)."""
        return f"{self._begin(f'p:{partition_of(channel)}')}sent:{channel} {encode_user(user)}"

    def watchers(self, conversation: ConversationId) -> tuple[str, str]:
        """Return the keys of a conversation's watchers: `_watchers.lua` describes them."""
        tag = self._begin(f"p:{partition_of(conversation)}")
        return f"{tag}watchers:{conversation}", f"{tag}watching:{conversation}"

    def event_window(self, conversation: ConversationId, subject: str) -> tuple[str, str]:
        """Return the keys that bound the events about a subject in a conversation: `claim_window.lua` describes them.

        `subject`: its kind and name.
        """
        tag = self._begin(f"p:{partition_of(conversation)}")
        return f"{tag}window:{subject}", f"{tag}due:{subject}"

    def outbox(self, partition: int) -> str:
        """Return the key of a partition's outbox, a stream."""
        return f"{self._begin(f'p:{partition}')}outbox"

    def clock(self, owner: str) -> tuple[str, ...]:
        """Return the key that scripts on a shared clock get. They derive the others from it.

        `owner`: a workspace. The tag is its part of the ids inside it.
        """
        return (self.of_clock(owner, "meta"),)

    def of_clock(self, owner: str, name: str) -> str:
        """Return one of the keys of a shared clock: meta, log, recent, changed, members, entries, routes."""
        return f"{self._begin('w:' + owner.removeprefix('w_'))}{name}"

    def event_stream(self, token: str, name: str) -> str:
        """Return one of the keys of an event stream."""
        return f"{self._begin(f's:{token}')}{name}"

    def host_turn(self, host: str) -> str:
        """Return the key that exists while a site is being asked for previews. `host`: a hash of its name."""
        return f"{self._begin(f'h:{host}')}turn"

    def channel(self, server: str) -> str:
        """Return the channel that one server listens to."""
        return f"{self.prefix}server:{server}"

    def broadcast(self) -> str:
        """Return the channel that all servers listen to."""
        return f"{self.prefix}servers"


def is_present(keys: Keys, name: str) -> bool:
    """Return whether a name belongs to the present generation of its slot."""
    space, brace, rest = name.partition("{")
    return space == keys._namespace_of(rest.partition("}")[0]) if brace else name.startswith(keys.namespace)
