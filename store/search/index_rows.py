"""Rows of the index of messages in MongoDB (ADR 85)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from store.base.ids import ConversationId, MessageId
from store.mongo.client import Document
from store.search.search_index import Proposal

MOST_MESSAGES = 64
"""Most messages of a row."""

MOST_TERMS = 2_000
"""Most terms of a row: the sum over its messages, unless it has only one message."""

SPREAD = 3_600_000 << 22
"""The largest difference between the ids of two messages of a row: one hour."""

_PLACE = struct.Struct("<QQH")
"""Id, seq, number of hashes."""


class IndexField:
    """Stored names of the fields of `search`, sharded by (CONVERSATION, NEWEST). MongoDB chooses the `_id`s."""

    CONVERSATION = "c"
    NEWEST = "l"
    """Id of the newest message."""
    OLDEST = "f"
    """Id of the oldest message. Absent if there is only one."""
    TERMS = "t"
    """Terms of all messages, each once."""
    MESSAGES = "m"
    """For each message id, seq, and hashes of its terms; no hashes if there is only one message."""
    REBUILD = "g"
    """Number of the rebuild that the row belongs to."""


_F = IndexField


class IndexedMessage(NamedTuple):
    """A message with its terms."""

    id: MessageId
    conversation: ConversationId
    seq: int
    terms: Collection[str]


class PlaceInRow(NamedTuple):
    """A message of a row. `hashes`: of its terms; None if it is the only message, which has all terms of the row."""

    id: MessageId
    seq: int
    hashes: frozenset[int] | None


def hash_of(term: str) -> int:
    """Return the hash of a term in a row: 16 bits, the same in all processes."""
    return zlib.crc32(term.encode()) & 0xFFFF


def rows_of(messages: Iterable[IndexedMessage], rebuild: int) -> list[Document]:
    """Return the rows of messages. Each belongs to one conversation, and has at most `MOST_MESSAGES`.

    A message that is given several times, before and after edits, is stored once with the terms of all its versions.
    """
    by_conversation: dict[ConversationId, dict[MessageId, IndexedMessage]] = {}
    for message in messages:
        same = by_conversation.setdefault(message.conversation, {})
        if (other := same.get(message.id)) is not None:
            message = message._replace(terms={*message.terms, *other.terms})
        same[message.id] = message
    return [
        _row(part, rebuild)
        for same in by_conversation.values()
        for part in _parts(sorted(same.values(), key=lambda message: message.id))
    ]


def places_in(row: Mapping[str, bytes]) -> Iterator[PlaceInRow]:
    """Yield the messages of a row, oldest first."""
    data, at = row[_F.MESSAGES], 0
    is_only = None
    while at < len(data):
        id, seq, number = _PLACE.unpack_from(data, at)
        at += _PLACE.size
        if is_only is None:
            is_only = len(data) == _PLACE.size
        hashes = None if is_only else frozenset(struct.unpack_from(f"<{number}H", data, at))
        at += 2 * number
        yield PlaceInRow(MessageId(id), seq, hashes)


def without_messages(row: Document, ids: Collection[MessageId]) -> list[Document]:
    """Return the row without some of its messages, as a list; empty if no message is left.

    A removed term stays if it has the same hash as a term that is kept.
    """
    by_hash: dict[int, list[str]] = {}
    for term in row[_F.TERMS]:
        by_hash.setdefault(hash_of(term), []).append(term)
    conversation = ConversationId(row[_F.CONVERSATION])
    kept = [
        IndexedMessage(place.id, conversation, place.seq, {t for h in place.hashes or () for t in by_hash.get(h, ())})
        for place in places_in(row)
        if place.id not in ids
    ]
    return [_row(kept, row[_F.REBUILD])] if kept else []


def with_other_terms(row: Document, terms: Mapping[str, str], conversation: ConversationId) -> Document:
    """Return the row with other terms and another conversation. terms: the new term of each term of the row."""
    by_hash: dict[int, list[str]] = {}
    for term in row[_F.TERMS]:
        by_hash.setdefault(hash_of(term), []).append(terms[term])
    all_terms = set(terms.values())
    messages = [
        IndexedMessage(
            place.id,
            conversation,
            place.seq,
            all_terms if place.hashes is None else {t for h in place.hashes for t in by_hash.get(h, ())},
        )
        for place in places_in(row)
    ]
    return {"_id": row["_id"]} | _row(messages, row[_F.REBUILD])


def proposal_of(row: Document, place: PlaceInRow) -> Proposal:
    """Return the proposal of a message of a row."""
    return Proposal(place.id, ConversationId(row[_F.CONVERSATION]), place.seq)


def _parts(messages: Sequence[IndexedMessage]) -> Iterator[list[IndexedMessage]]:
    """Yield the messages of each row. They must be in the order of their ids."""
    part: list[IndexedMessage] = []
    terms = 0
    for message in messages:
        is_full = len(part) == MOST_MESSAGES or terms + len(message.terms) > MOST_TERMS
        if part and (is_full or message.id - part[0].id > SPREAD):
            yield part
            part, terms = [], 0
        part.append(message)
        terms += len(message.terms)
    if part:
        yield part


def _row(messages: Sequence[IndexedMessage], rebuild: int) -> Document:
    is_only = len(messages) == 1
    row: Document = {
        _F.CONVERSATION: messages[0].conversation,
        _F.NEWEST: int(messages[-1].id),
        _F.TERMS: sorted(set().union(*(message.terms for message in messages))),
        _F.MESSAGES: b"".join(_place(message, () if is_only else message.terms) for message in messages),
        _F.REBUILD: rebuild,
    }
    if not is_only:
        row[_F.OLDEST] = int(messages[0].id)
    return row


def _place(message: IndexedMessage, terms: Collection[str]) -> bytes:
    hashes = sorted({hash_of(term) for term in terms})
    return _PLACE.pack(message.id, message.seq, len(hashes)) + struct.pack(f"<{len(hashes)}H", *hashes)
