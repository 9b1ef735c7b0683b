"""Caches of documents that one user alone cannot fill (ADR 49)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from store.base.ids import UserId
from subscriptions.transport.engine import GraphQLRequest, Json

Prepared = TypeVar("Prepared")
Key = tuple[str, str | None]
"""The text of a document, and the name of the operation."""

_MAX_REFUSALS = 1_000


@dataclass(slots=True)
class _Entry(Generic[Prepared]):
    prepared: Prepared
    size: int
    owner: UserId | None
    """The only user who has sent the document; None if several have."""


class DocumentCache(Generic[Prepared]):
    """Prepared documents up to a total size.

    A document belongs to the user who sent it first, until another user sends it: then it is shared. Documents of one
    user may take a quarter of the cache. All documents that are not shared may take the space that shared ones leave.
    Beyond a quarter of the cache they are evicted first, beginning with the oldest one of the user who has the most.
    """

    def __init__(
        self, max_size: int, on_share: Callable[[Prepared], None], on_evict: Callable[[Prepared], None]
    ) -> None:
        self._max_size = max_size
        self._on_share = on_share
        self._on_evict = on_evict
        self._entries: dict[Key, _Entry[Prepared]] = {}
        self._shared: OrderedDict[Key, None] = OrderedDict()
        self._owned: dict[UserId, OrderedDict[Key, None]] = {}
        self._size_by_owner: dict[UserId, int] = {}
        self._owned_size = 0
        self.size = 0
        """The sum of the sizes of all documents."""

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._entries)

    def get(self, key: Key, user: UserId | None) -> Prepared | None:
        """Return a document, and count the use. With None for the user the use does not count."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.owner is None:
            if user is not None:
                self._shared.move_to_end(key)
        elif entry.owner == user:
            self._owned[user].move_to_end(key)
        elif user is not None:
            self._disown(key, entry)
            entry.owner = None
            self._shared[key] = None
            self._on_share(entry.prepared)
        return entry.prepared

    def add(self, key: Key, prepared: Prepared, size: int, user: UserId) -> None:
        """Cache a user's document, and evict others if there is no room. A document that is too large is evicted."""
        self._entries[key] = _Entry(prepared, size, user)
        self._owned.setdefault(user, OrderedDict())[key] = None
        self._size_by_owner[user] = self._size_by_owner.get(user, 0) + size
        self._owned_size += size
        self.size += size
        while self._size_by_owner.get(user, 0) > self._max_size // 4:
            self._evict(next(iter(self._owned[user])))
        while self.size > self._max_size:
            self._evict(self._next_to_evict())

    def _next_to_evict(self) -> Key:
        if self._owned_size > self._max_size // 4 or not self._shared:
            largest = max(self._size_by_owner, key=self._size_by_owner.__getitem__)
            return next(iter(self._owned[largest]))
        return next(iter(self._shared))

    def _evict(self, key: Key) -> None:
        entry = self._entries.pop(key)
        self.size -= entry.size
        if entry.owner is None:
            del self._shared[key]
        else:
            self._disown(key, entry)
        self._on_evict(entry.prepared)

    def _disown(self, key: Key, entry: _Entry[Prepared]) -> None:
        owner = entry.owner
        assert owner is not None
        del self._owned[owner][key]
        self._owned_size -= entry.size
        self._size_by_owner[owner] -= entry.size
        if not self._owned[owner]:
            del self._owned[owner], self._size_by_owner[owner]


class RefusalCache:
    """The errors of documents that were refused. It keeps hashes of the documents."""

    def __init__(self) -> None:
        self._errors: OrderedDict[bytes, list[Json]] = OrderedDict()

    @staticmethod
    def key_of(request: GraphQLRequest) -> bytes:
        """Return the key of a request."""
        text = repr((request.query, request.operation_name))
        return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()

    def get(self, key: bytes) -> list[Json] | None:
        """Return the errors of a request that was refused."""
        errors = self._errors.get(key)
        if errors is not None:
            self._errors.move_to_end(key)
        return errors

    def add(self, key: bytes, errors: list[Json]) -> None:
        """Remember a refusal."""
        self._errors[key] = errors
        if len(self._errors) > _MAX_REFUSALS:
            self._errors.popitem(last=False)
