"""Messages between their reservation and the end of their delivery."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from store.base.errors import StoreError, Superseded, Unreachable
from store.base.ids import UserId
from store.messages.message import CommittedMessage, Message, ReservedMessage
from store.sessions.apply_results import NOT_CACHED, ApplyResult
from store.sessions.changes import LoggedChange
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import MessageCreated

_SHARED_AFTER_SECONDS = 4.0
"""Another server takes a message over after five seconds."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A durable message, and the change of its sender's session (NOT_CACHED: the session is not in Redis).

    The message has another id than the one that was to be sent if it was sent before with the same idempotency key.
    """

    message: Message
    sender: ApplyResult


@dataclass(slots=True, eq=False)
class InFlightMessage:
    """A message that is being delivered."""

    reserved: ReservedMessage
    sent: asyncio.Future[Sent]
    """Set when the sender may be answered."""
    recovered: bool
    """True if another server began the delivery, and may have done a part of it."""
    began: float
    """Time of the event loop at which this process began the delivery."""
    committed: CommittedMessage | None = None
    written_at_ms: int = 0
    """Write time of the conversation with this message; 0: not known."""
    event: MessageCreated | None = None
    group_event: GroupChanged | None = None
    """The event of the update, if the message changes a field or role of a group."""
    remaining: list[UserId] = field(default_factory=list)
    """Recipients for the large-group queue."""
    outside: frozenset[UserId] = frozenset()
    """Recipients who do not follow the thread: see `Recipients`."""
    judged: Mapping[UserId, LoggedChange] = field(default_factory=dict)
    """Changes of recipients' threads: see `judge_threads`."""
    watchers: Sequence[UserId] = ()
    """Users who look at the thread and do not get its messages otherwise, for the large-group queue."""

    stays_in_outbox: bool = False
    """True if the message stays in the outbox after its delivery: its notes or its head could not be written."""
    new_followers: Sequence[UserId] = ()
    """Users who begin to follow the thread, until the large-group queue has judged whether they can see it."""

    @property
    def may_be_shared(self) -> bool:
        """True if another server may deliver the message too: it takes over what takes long."""
        return self.recovered or asyncio.get_running_loop().time() - self.began > _SHARED_AFTER_SECONDS

    @property
    def is_complete(self) -> bool:
        """True if all recipients have been served."""
        return not self.remaining and not self.watchers and not self.new_followers


def delivery_order(message: InFlightMessage) -> tuple[int, int]:
    """Return the sort key in which durable messages are fanned out: the commit timestamp, then seq."""
    assert message.committed is not None
    return message.committed.at_ms, message.reserved.message.seq


class InFlightMessages:
    """The in-flight messages of one process, by id."""

    def __init__(self) -> None:
        self._by_id: dict[int, InFlightMessage] = {}

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self._by_id)

    def __iter__(self) -> Iterator[InFlightMessage]:
        """Iterate over a copy."""
        return iter(list(self._by_id.values()))

    def find(self, message: int) -> InFlightMessage | None:
        """Return a message by its id."""
        return self._by_id.get(message)

    def add(self, reserved: ReservedMessage, *, recovered: bool) -> InFlightMessage:
        """Add a message whose delivery begins."""
        loop = asyncio.get_running_loop()
        message = InFlightMessage(reserved, loop.create_future(), recovered, loop.time())
        self._by_id[reserved.message.id] = message
        return message

    def remove(self, message: InFlightMessage) -> None:
        """Remove a message whose delivery ends here, complete or not."""
        self._by_id.pop(message.reserved.message.id, None)

    def answer(self, message: InFlightMessage, sender: ApplyResult) -> None:
        """Answer the sender: the message is durable."""
        if not message.sent.done():
            message.sent.set_result(Sent(message.reserved.message, sender))

    def answer_with(self, message: InFlightMessage, original: Message) -> None:
        """Answer the sender with another durable message, which has the same idempotency key."""
        if not message.sent.done():
            message.sent.set_result(Sent(original, NOT_CACHED))

    def give_up(self, message: InFlightMessage, error: StoreError) -> None:
        """Raise an error to the sender: the outcome is unknown. The message stays in the outbox."""
        self.remove(message)
        if not message.sent.done():
            known = isinstance(error, Unreachable | Superseded)
            message.sent.set_exception(error if known else Unreachable(str(error)))
            # The sender may be gone: an exception that nobody retrieves would be logged.
            message.sent.exception()


class StageQueue:
    """Messages that wait for a stage, in order."""

    def __init__(self) -> None:
        self._messages: deque[InFlightMessage] = deque()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of waiting messages."""
        return len(self._messages)

    def push(self, messages: Sequence[InFlightMessage]) -> None:
        """Add messages at the end."""
        self._messages.extend(messages)
        self._filled.set()

    async def take(self, limit: int) -> list[InFlightMessage]:
        """Wait for messages, then remove and return up to `limit` of them."""
        while not self._messages:
            self._filled.clear()
            await self._filled.wait()
        return self.take_waiting(limit)

    def take_waiting(self, limit: int) -> list[InFlightMessage]:
        """Remove and return up to `limit` messages, without waiting."""
        return [self._messages.popleft() for _ in range(min(limit, len(self._messages)))]

    def take_conversation(self, conversation: str, limit: int) -> list[InFlightMessage]:
        """Remove and return up to `limit` messages of a conversation, without waiting."""
        found = [m for m in self._messages if m.reserved.message.conversation == conversation][:limit]
        for message in found:
            self._messages.remove(message)
        return found
