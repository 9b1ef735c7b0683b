"""Which node of a Redis Cluster owns each of the 16,384 slots, as the nodes report it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Sequence

import structlog
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from store.redis.calls import Call
from store.redis.cluster.url import Address, join_address
from store.redis.keys import SLOTS
from store.redis.node import RedisNode

_log = structlog.get_logger()

_ASKED_AT_ONCE = 3
"""Nodes asked for the map at the same time; the first answer is taken."""

_MIN_REFRESH_INTERVAL_SECONDS = 0.1

_FORMER_SECONDS = 60.0
"""Time for which the former owner of a slot is remembered."""

_CLUSTER_SLOTS = Call("CLUSTER", (), ("SLOTS",))


class SlotMap:
    """The owner of each slot. Refreshed from the nodes, one refresh at a time."""

    def __init__(
        self,
        known_addresses: Callable[[], Collection[Address]],
        node: Callable[[Address], RedisNode],
        on_refresh: Callable[[Collection[Address]], None],
    ) -> None:
        """Start with an empty map.

        Args:
            known_addresses: Nodes that can report the map.
            node: Returns the node at an address.
            on_refresh: Called with the owners of all slots after each refresh.
        """
        self._known_addresses = known_addresses
        self._node = node
        self._on_refresh = on_refresh
        self._owners: list[Address] = []
        self._former: dict[int, list[tuple[Address, float]]] = {}
        """The former owners of slots, with the time until which each is remembered, by the event loop's clock."""
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_at = 0.0

    @property
    def is_empty(self) -> bool:
        """True until the first refresh has succeeded."""
        return not self._owners

    @property
    def owners(self) -> set[Address]:
        """The nodes that own slots, as far as is known."""
        return set(self._owners)

    def owner(self, key: str) -> Address:
        """Return the node that owns a key or a channel, as far as is known."""
        return self._owners[key_slot(key.encode())]

    def owner_of_slot(self, slot: int) -> Address:
        """Return the node that owns a slot, as far as is known."""
        return self._owners[slot]

    def random_owner(self) -> Address:
        """Return any node that owns slots."""
        return self._owners[random.randrange(SLOTS)]

    def move(self, slot: int, address: Address) -> Address:
        """Note the new owner of a slot. Returns the former one."""
        former, self._owners[slot] = self._owners[slot], address
        self._note_former(slot, former, address)
        return former

    def slots_of(self, addresses: Collection[Address]) -> set[int]:
        """Return the slots that nodes own, or owned until less than a minute ago, as far as is known."""
        now = asyncio.get_running_loop().time()
        slots = {slot for slot, owner in enumerate(self._owners) if owner in addresses}
        for slot, former in self._former.items():
            if any(address in addresses and until > now for address, until in former):
                slots.add(slot)
        return slots

    def _note_former(self, slot: int, former: Address, owner: Address) -> None:
        if former != owner:
            now = asyncio.get_running_loop().time()
            kept = [known for known in self._former.get(slot, ()) if known[1] > now and known[0] != former]
            self._former[slot] = [*kept, (former, now + _FORMER_SECONDS)]

    async def refresh(self) -> None:
        """Read the map from the nodes. Raises RedisError or OSError if no node reports it."""
        await asyncio.shield(self._start_refresh())

    def refresh_soon(self) -> None:
        """Start a refresh in the background, unless there was one less than 0.1 s ago."""
        loop = asyncio.get_running_loop()
        if self._refreshing is None and loop.time() - self._refreshed_at > _MIN_REFRESH_INTERVAL_SECONDS:
            self._start_refresh()

    async def close(self) -> None:
        """Cancel a refresh that is running."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    def _start_refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._read_owners())
            self._refreshing.add_done_callback(self._on_refreshed)
        return self._refreshing

    def _on_refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        self._refreshed_at = asyncio.get_running_loop().time()
        if not task.cancelled() and task.exception() is not None:
            _log.warning("cluster_slots_not_refreshed", reason=str(task.exception()))

    async def _read_owners(self) -> None:
        addresses = list(self._known_addresses())
        random.shuffle(addresses)
        failure: Exception | None = None
        for i in range(0, len(addresses), _ASKED_AT_ONCE):
            try:
                owners = await self._first_report(addresses[i : i + _ASKED_AT_ONCE])
            except (RedisError, OSError) as error:
                failure = error
            else:
                if owners != self._owners:
                    for slot, (former, owner) in enumerate(zip(self._owners, owners, strict=False)):
                        self._note_former(slot, former, owner)
                self._owners = owners
                self._on_refresh(self.owners)
                return
        raise failure or RedisConnectionError("no node of the Redis Cluster is known")

    async def _first_report(self, addresses: Sequence[Address]) -> list[Address]:
        asking = [asyncio.create_task(self._report_of(address)) for address in addresses]
        failure: Exception | None = None
        try:
            for reported in asyncio.as_completed(asking):
                try:
                    return await reported
                except (RedisError, OSError) as error:
                    failure = error
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        assert failure is not None
        raise failure

    async def _report_of(self, address: Address) -> list[Address]:
        """Return the owner of each slot as one node reports it."""
        ranges = await self._node(address).ask(_CLUSTER_SLOTS)
        own_host = address.rpartition(":")[0]
        owners = [""] * SLOTS
        for first, last, primary, *_ in ranges:
            host = (primary[0] or b"").decode()
            # A node that does not know its own address reports none.
            owner = join_address(host, primary[1]) if host not in ("", "?") else f"{own_host}:{primary[1]}"
            owners[first : last + 1] = [owner] * (last + 1 - first)
        any_owner = next((owner for owner in owners if owner), "")
        if not any_owner:
            raise RedisConnectionError("the Redis Cluster has assigned no slots yet")
        # Any node answers a call for an unassigned slot: with the new owner, or with CLUSTERDOWN.
        return [owner or any_owner for owner in owners]
