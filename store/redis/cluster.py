"""Pipelines to the primaries of a Redis Cluster: each call goes to the node that owns its key (ADR 21).

The calls of one caller go to all nodes concerned at the same time, and the replies come back in the order of the calls.
A node executes nothing of a call that it refuses because it does not own the key (MOVED, ASK) or cannot answer now
(TRYAGAIN, CLUSTERDOWN). Such calls, and calls for which no connection could be opened, are repeated until the timeout.
All other failures are raised to the caller.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from store.redis.calls import Call
from store.redis.cluster_url import Address, ClusterUrl
from store.redis.node import TIMEOUT_SECONDS, RedisNode
from store.redis.pipeline_connection import PendingCalls
from store.redis.slot_map import SlotMap

_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.2
"""Pauses before a repetition of calls that a node cannot answer now."""

_MAX_IMMEDIATE_REDIRECTS = 3
"""Number of times that redirected calls are repeated without a pause."""

_PING = Call("PING", ())

_ASKING = Call("ASKING", ())
"""Lets a node answer the next call although the slot is still being moved to it."""


class ClusterNodes:
    """The nodes of one cluster."""

    def __init__(self, url: ClusterUrl, connect: Callable[[str], RedisNode]) -> None:
        """Open no connection yet. connect: returns the node at a URL."""
        self._url = url
        self._connect = connect
        self._nodes: dict[Address, RedisNode] = {}
        self._slots = SlotMap(lambda: {*self._nodes, *self._url.seeds}, self._node, self._leave_others)
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def queued(self) -> int:
        """Callers whose calls were not sent yet."""
        return sum(node.queued for node in self._nodes.values())

    def drop(self) -> None:
        """End all connections and fail all callers. Later calls go over new connections."""
        for node in self._nodes.values():
            node.drop()

    async def close(self) -> None:
        """Like `drop`, and wait until the connections have ended."""
        for task in self._leaving:
            task.cancel()
        closing = (node.close() for node in self._nodes.values())
        await asyncio.gather(self._slots.close(), *closing, *self._leaving, return_exceptions=True)

    async def open_connections(self) -> None:
        """Open a connection to each node, so that the first requests need not wait for it.

        Nodes that cannot be reached are left out. Raises RedisError, OSError if no node answers.
        """
        await self._slots.refresh()
        pings = [self._node(address).enqueue((_PING,), 1).replies for address in self._slots.owners]
        await asyncio.gather(*pings, return_exceptions=True)

    async def find_url(self, key: str) -> str:
        """Return the URL of the node that owns a key or a channel, as the nodes report now.

        Raises RedisError, OSError.
        """
        await self._slots.refresh()
        return self._url.node_url(self._slots.owner(key))

    def is_owner(self, key: str, url: str) -> bool:
        """Return whether the node at a URL still owns a key or a channel, as far as is known."""
        return self._url.node_url(self._slots.owner(key)) == url

    def find_owner(self, key: str) -> Address:
        """Return the node that owns a key, as far as is known, or "" if the nodes were not asked yet."""
        return "" if self._slots.is_empty else self._slots.owner(key)

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Return the replies in order, error replies as exceptions in their places.

        Raises:
            RedisError, OSError: Not all replies arrived. Some of the calls may have been executed.
        """
        if self._slots.is_empty:
            await self._slots.refresh()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT_SECONDS
        replies: list[Any] = [None] * len(calls)
        remaining: Sequence[int] = range(len(calls))
        redirected: dict[int, Address] = {}
        pause = _FIRST_PAUSE_SECONDS
        for attempt in count(1):
            remaining, needs_pause = await self._run_once(calls, remaining, redirected, replies)
            if not remaining or loop.time() + pause >= deadline:
                break
            if any(isinstance(replies[i], OSError | RedisConnectionError) for i in remaining):
                # Raises if no node answers at all. Then a pause would not help.
                await self._slots.refresh()
            if needs_pause or attempt > _MAX_IMMEDIATE_REDIRECTS:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return replies

    async def _run_once(
        self, calls: Sequence[Call], remaining: Sequence[int], redirected: dict[int, Address], replies: list[Any]
    ) -> tuple[list[int], bool]:
        """Send the remaining calls and fill in their replies.

        Returns the calls to repeat, and whether a pause is needed.
        """
        sent = self._send(calls, remaining, redirected)
        repeat: list[int] = []
        needs_pause = False
        failure: BaseException | None = None
        try:
            for indices, pending in sent:
                try:
                    found = await pending.replies
                except (RedisError, OSError) as error:
                    self._slots.refresh_soon()
                    if pending.was_never_sent and _may_recover(error):
                        needs_pause = True
                        repeat += indices
                        for i in indices:
                            redirected.pop(i, None)
                            replies[i] = error
                    else:
                        failure = error
                    continue
                reply_iterator = iter(found)
                for i in indices:
                    reply = next(reply_iterator)
                    if redirected.pop(i, None) is not None:
                        # The first reply was to ASKING.
                        reply = next(reply_iterator)
                    replies[i] = reply
                    if isinstance(reply, ResponseError):
                        is_repeatable, wants_pause = self._handle_refusal(i, str(reply), redirected)
                        needs_pause = needs_pause or wants_pause
                        if is_repeatable:
                            repeat.append(i)
        finally:
            _cancel_rest(pending for _, pending in sent)
        if failure is not None:
            raise failure
        return sorted(repeat), needs_pause

    def _send(
        self, calls: Sequence[Call], indices: Sequence[int], redirected: dict[int, Address]
    ) -> list[tuple[list[int], PendingCalls]]:
        by_node: defaultdict[Address, list[int]] = defaultdict(list)
        for i in indices:
            by_node[redirected[i] if i in redirected else self._owner(calls[i])].append(i)
        sent = []
        for address, of_node in by_node.items():
            part: list[Call] = []
            for i in of_node:
                if i in redirected:
                    part.append(_ASKING)
                part.append(calls[i])
            sent.append((of_node, self._node(address).enqueue(part, len(calls))))
        return sent

    def _handle_refusal(self, i: int, text: str, redirected: dict[int, Address]) -> tuple[bool, bool]:
        """Handle an error reply of a node. Returns whether the call may be repeated, and whether after a pause."""
        match text.split(" "):
            case ["MOVED", slot, address, *_]:
                former = self._slots.move(int(slot), address)
                self._slots.refresh_soon()
                # The call was redirected to the node that has just refused it: the nodes do not agree yet.
                return True, former == address
            case ["ASK", _, address, *_]:
                redirected[i] = address
                return True, False
            case ["TRYAGAIN", *_]:
                return True, True
            case ["CLUSTERDOWN", *_]:
                self._slots.refresh_soon()
                return True, True
        return False, False

    def _owner(self, call: Call) -> Address:
        # A call without a key may go to any node, and to another one when it is repeated.
        return self._slots.owner(call.keys[0]) if call.keys else self._slots.random_owner()

    def _node(self, address: Address) -> RedisNode:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = self._connect(self._url.node_url(address))
        return node

    def _leave_others(self, owners: Collection[Address]) -> None:
        """Leave the nodes that own no slots."""
        for address in self._nodes.keys() - owners - set(self._url.seeds):
            task = asyncio.create_task(self._leave(self._nodes.pop(address)))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _leave(self, node: RedisNode) -> None:
        """Close the connections to a node after it has had time to answer the calls in flight."""
        try:
            await asyncio.sleep(TIMEOUT_SECONDS)
        finally:
            await node.close()


def _may_recover(error: Exception) -> bool:
    """Return whether a repetition may help. It does not help with a wrong password."""
    return isinstance(error, OSError | RedisConnectionError) and type(error).__name__ != "AuthenticationError"


def _cancel_rest(sent: Iterable[PendingCalls]) -> None:
    """Cancel the calls that nobody waits for after a failure."""
    for pending in sent:
        if not pending.replies.done():
            pending.replies.cancel()
