"""Consistent hashing: each key has one owner, the same for all who know the same servers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b

VIRTUAL_NODES = 150
"""Places of each server on the ring. With so many, the shares of servers differ by about a tenth."""


def hash_key(key: str) -> int:
    """Return a place on the ring. The same in all processes and releases."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest())


class HashRing:
    """Servers at places on a ring. A key belongs to the first server at its own place or after it.

    If a server joins, only keys that it gets change their owner; if one leaves, only those that it had.
    """

    def __init__(self, servers: Iterable[str]) -> None:
        """Place each server on the ring."""
        self.servers = frozenset(servers)
        places = sorted(
            (hash_key(f"{server} {node}"), server) for server in self.servers for node in range(VIRTUAL_NODES)
        )
        self._places = [place for place, _ in places]
        self._owners = [server for _, server in places]

    def owner_of(self, key: str) -> str:
        """Return the server that a key belongs to. There must be a server."""
        return self._owners[bisect_left(self._places, hash_key(key)) % len(self._owners)]
