"""Notes in the outbox that a thread has changed. One stays there until the events of the change are sent.

It is made in the step that completes the change, before the change itself leaves the outbox. So the events are sent if
a server dies at any moment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from store.base.ids import ConversationId, parse_thread, thread_id
from store.messages.outbox.outbox_entries import OutboxField, entry_values
from store.messages.revision_store import RevisionKind
from store.redis.cache import Call
from store.redis.keys import Keys


class ThreadNote(NamedTuple):
    """A thread that has changed, and the outbox entry that says so."""

    thread: ConversationId
    entry: str


def thread_note_call(keys: Keys, thread: ConversationId) -> Call:
    """Return the call that notes that a thread has changed. `parse_thread_note` reads its answer."""
    place = parse_thread(thread)
    assert place is not None
    fields: dict[str, str | int | bytes] = {
        OutboxField.SEQ: 0,
        OutboxField.N: 0,
        OutboxField.CONVERSATION: place.parent,
        OutboxField.MESSAGE: "{}",
        OutboxField.REVISION: orjson.dumps(["0", place.seq, RevisionKind.EDIT.value, 0]),
        OutboxField.THREAD: 1,
    }
    outbox = keys.conversation(place.parent)[2]
    return Call("XADD", (outbox,), ("*", *(part for pair in fields.items() for part in pair)))


def parse_thread_note(thread: ConversationId, answer: bytes) -> ThreadNote:
    """Return the answer of `thread_note_call`."""
    return ThreadNote(thread, answer.decode())


def thread_note_from(entry: str, fields: Any) -> ThreadNote | None:
    """Return the note of an outbox entry; None if the entry is something else."""
    values = entry_values(fields)
    if OutboxField.THREAD.encode() not in values:
        return None
    parent = ConversationId(values[OutboxField.CONVERSATION.encode()].decode())
    return ThreadNote(thread_id(parent, orjson.loads(values[OutboxField.REVISION.encode()])[1]), entry)
