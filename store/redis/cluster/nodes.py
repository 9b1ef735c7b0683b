"""Pipelines to the primaries of a Redis Cluster: each call goes to the node that owns its key (ADR 21).

The calls of one caller go to all nodes concerned at the same time, and the replies come back in the order of the calls.
A node executes nothing of a call that it refuses because it does not own the key (MOVED, ASK) or cannot answer now
(TRYAGAIN, CLUSTERDOWN). Such calls, and calls for which no connection could be opened, are repeated until the timeout.
All other failures concern the calls to that node only. After a node has failed for some seconds, calls to it fail at
once, until it answers a `ping` again or another node has its slots.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from store.base.errors import failures
from store.redis.admission import ClusterReport
from store.redis.calls import Call, FormerGeneration
from store.redis.cluster.failing_nodes import FailingNodes
from store.redis.cluster.shard_slots import find_addresses, find_members, find_slots, parse_nodes, parse_shard_members
from store.redis.cluster.slot_map import SlotMap
from store.redis.cluster.url import Address, ClusterUrl
from store.redis.node import TIMEOUT_SECONDS, RedisNode
from store.redis.pipeline_connection import PendingCalls

_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.2
"""Pauses before a repetition of calls that a node cannot answer now."""

_MAX_IMMEDIATE_REDIRECTS = 3
"""Number of times that redirected calls are repeated without a pause."""

_MOST_DRAWS = 20
"""Largest number of random choices to find a node that is not away."""

_PING_SECONDS = 1.0
"""Time that `ping` waits for the other nodes after the first one has answered."""

_REPORT_SECONDS = 1.0
"""Time in which nodes have to report the slots of a shard. Later reports are ignored."""

_PING = Call("PING", ())

_CLUSTER_NODES = Call("CLUSTER", (), ("NODES",))

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
        self._failing = FailingNodes()

    @property
    def queued(self) -> int:
        """Callers whose calls were not sent yet."""
        return sum(node.queued for node in self._nodes.values())

    def drop(self, shards: Collection[str] | None = None) -> None:
        """End all connections and fail all callers. Later calls go over new connections.

        shards: ids of shards; only connections to their nodes are ended.
        """
        for node in self._nodes.values():
            if shards is None or node.shard in shards:
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

    async def ping(self) -> bool:
        """Return whether all nodes that own slots answer. New connections to them are admitted first.

        Raises RedisError, OSError if no node answers.
        """
        if self._slots.is_empty:
            await self._slots.refresh()
        pings = {address: self._node(address).enqueue((_PING,), 1).replies for address in self._slots.owners}
        waiting = set(pings.values())
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(not ping.cancelled() and ping.exception() is None for ping in done):
                break
        if waiting:
            await asyncio.wait(waiting, timeout=_PING_SECONDS)
        missing = [failure for address, ping in pings.items() if (failure := self._note_ping(address, ping))]
        if missing:
            self._slots.refresh_soon()
        if len(missing) == len(pings):
            raise missing[0]
        return not missing

    def _note_ping(self, address: Address, ping: asyncio.Future[list[Any]]) -> Exception | None:
        """Return why a node has not answered a ping; None if it has."""
        failure: BaseException | None
        if not ping.done():
            ping.cancel()
            failure = RedisTimeoutError("no answer to a ping in time")
        else:
            (answer,) = (None,) if (failure := ping.exception()) else ping.result()
            failure = answer if isinstance(answer, Exception) else failure
        if failure is None:
            self._failing.note_answer(address)
            return None
        if not isinstance(failure, RedisError | OSError):
            raise failure
        self._failing.note_failure(address, is_silent=isinstance(failure, RedisTimeoutError))
        return failure

    async def read_report(self, member: RedisNode) -> ClusterReport:
        """Ask all nodes about the shard of one member. Nodes that do not answer in time are left out.

        The slots are those that the shard owns, those that it owned until less than a minute ago, and those that are
        being moved to or from the shard. Raises RedisError, OSError if the member itself does not answer.
        """
        own_report = parse_nodes((await member.ask(_CLUSTER_NODES)).decode())
        node = (await member.ask(Call("CLUSTER", (), ("MYID",)))).decode()
        members = parse_shard_members(await member.ask(Call("CLUSTER", (), ("SHARDS",))), node)
        others = [other for other in self._nodes.values() if other is not member]
        asking = [asyncio.create_task(other.ask(_CLUSTER_NODES)) for other in others]
        if asking:
            await asyncio.wait(asking, timeout=_REPORT_SECONDS)
        reports = [own_report]
        for question in asking:
            question.cancel()
            if question.done() and not question.cancelled() and question.exception() is None:
                reports.append(parse_nodes(question.result().decode()))
        await asyncio.gather(*asking, return_exceptions=True)
        members = find_members(members, reports)
        slots = find_slots(members, reports) | self._slots.slots_of(find_addresses(members, reports))
        epochs = {entry.id: entry.config_epoch for entry in own_report if entry.primary == "-" and entry.slots}
        return ClusterReport(slots, epochs)

    async def find_url(self, key: str) -> str:
        """Ask the nodes, and return the URL of the owner of a key or a channel; of another node if the owner is away.

        Raises RedisError, OSError.
        """
        await self._slots.refresh()
        return self._url.node_url(self._random_owner() if self.is_away(key) else self._slots.owner(key))

    def is_owner(self, key: str, url: str) -> bool:
        """Return whether the node at a URL still owns a key or a channel, as far as is known.

        While the owner is away, any other node stands for it: a connection to the owner may stay open and silent.
        """
        return (self._url.node_url(self._slots.owner(key)) == url) != self.is_away(key)

    def is_away(self, key: str) -> bool:
        """Return whether the node that owns a key or a channel has not answered for some time."""
        return not self._slots.is_empty and self._failing.is_away(self._slots.owner(key))

    def is_slot_away(self, slot: int) -> bool:
        """Return whether the node that owns a slot has not answered for some time."""
        return not self._slots.is_empty and self._failing.is_away(self._slots.owner_of_slot(slot))

    def widen_slots(self, slots: Collection[int]) -> set[int]:
        """Return the given slots, and all others of their nodes, as far as is known."""
        if self._slots.is_empty:
            return set(slots)
        return {*slots, *self._slots.slots_of({self._slots.owner_of_slot(slot) for slot in slots})}

    def find_owner(self, key: str) -> Address:
        """Return the node that owns a key, as far as is known, or "" if the nodes were not asked yet."""
        return "" if self._slots.is_empty else self._slots.owner(key)

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Return the replies in order, error replies as exceptions in their places.

        If a node does not answer, the failure is in the places of its replies. Its calls may have been executed.

        Raises:
            RedisError, OSError: No node answers which nodes there are. Nothing was executed.
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
            if any(is_failure(replies[i]) for i in remaining):
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
        try:
            for address, indices, pending in sent:
                try:
                    found = await pending.replies
                except FormerGeneration as error:
                    for i in indices:
                        replies[i] = error
                    continue
                except (RedisError, OSError) as error:
                    self._slots.refresh_soon()
                    if not self._failing.is_away(address):
                        # A node that is away was not asked.
                        self._failing.note_failure(address, is_silent=isinstance(error, RedisTimeoutError))
                        failures["redis"] += 1
                    for i in indices:
                        redirected.pop(i, None)
                        replies[i] = error
                    if pending.was_never_sent and _may_recover(error) and not self._failing.is_away(address):
                        needs_pause = True
                        repeat += indices
                    continue
                self._failing.note_answer(address)
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
            _cancel_rest(pending for _, _, pending in sent)
        return sorted(repeat), needs_pause

    def _send(
        self, calls: Sequence[Call], indices: Sequence[int], redirected: dict[int, Address]
    ) -> list[tuple[Address, list[int], PendingCalls]]:
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
            if self._failing.is_away(address):
                pending = PendingCalls(part, asyncio.get_running_loop())
                pending.fail(RedisConnectionError("this node of the cluster has not answered for some time"))
            else:
                pending = self._node(address).enqueue(part, len(calls))
            sent.append((address, of_node, pending))
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
        return self._slots.owner(call.keys[0]) if call.keys else self._random_owner()

    def _random_owner(self) -> Address:
        """Return a node for a call without a key. It may go to any node, and to another one when it is repeated."""
        for _ in range(_MOST_DRAWS):
            address = self._slots.random_owner()
            if not self._failing.is_away(address):
                break
        return address

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


def is_failure(reply: object) -> bool:
    """Return whether a value in the place of a reply is the reason why it is missing."""
    return isinstance(reply, OSError | RedisConnectionError | RedisTimeoutError)


def _may_recover(error: Exception) -> bool:
    """Return whether a repetition may help. It does not help with a wrong password."""
    return isinstance(error, OSError | RedisConnectionError) and type(error).__name__ != "AuthenticationError"


def _cancel_rest(sent: Iterable[PendingCalls]) -> None:
    """Cancel the calls that nobody waits for after a failure."""
    for pending in sent:
        if not pending.replies.done():
            pending.replies.cancel()
