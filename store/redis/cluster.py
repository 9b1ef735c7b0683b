"""The nodes of a Redis Cluster: which of them holds what, and pipelines to each (ADR 21).

A caller's calls go to all the nodes they concern at once, and their replies come back in the order of the calls. What a node refused
because it does not hold the key (MOVED, ASK), or can't at the moment (TRYAGAIN, CLUSTERDOWN), was not carried out, and neither was what
no connection could be made for: it is asked again until the patience is over. All else is the caller's to repeat.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from store.redis.pipeline import Asked, PipelinePool

_log = structlog.get_logger()

SLOTS = 16_384
_PAUSES = (0.005, 0.2)
"""The first and the longest pause before what was refused for the moment is asked again, in seconds."""

_HOPS = 3
"""How often what is sent on is asked again without a pause."""

_WITNESSES = 3
"""Nodes that are asked at the same time who holds what."""

_RARELY_SECONDS = 0.1
"""How long the nodes are left in peace after they were asked who holds what."""

Address = str
"""`host:port`, as the cluster tells it."""


@dataclass(frozen=True, slots=True)
class ClusterUrl:
    """`redis+cluster://[user:password@]host:port,host:port[?options]`, or rediss+cluster. Any of the nodes will do: they tell of the
    others."""

    scheme: str
    login: str
    seeds: tuple[Address, ...]
    options: str

    def of(self, address: Address) -> str:
        """One node's URL."""
        return f"{self.scheme}://{self.login}{address}{self.options}"


def parse_cluster_url(url: str) -> ClusterUrl | None:
    """None: it is that of one Redis. Raises ValueError where it is neither."""
    scheme, plus, rest = url.partition("+cluster://")
    if not plus:
        return None
    place, mark, options = rest.partition("?")
    login, at, hosts = place.rpartition("@")
    parts = [urlsplit(f"//{host}") for host in hosts.removesuffix("/0").rstrip("/").split(",")]
    if scheme not in {"redis", "rediss"} or not all(part.hostname and not part.path for part in parts):
        raise ValueError("not the address of a cluster")
    seeds = tuple(_address(part.hostname or "", part.port or 6379) for part in parts)
    return ClusterUrl(scheme, login + at, seeds, mark + options)


def _address(host: str, port: int) -> Address:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ClusterNode(Protocol):
    """Pipelines to one Redis."""

    few: PipelinePool
    many: PipelinePool

    @property
    def waiting(self) -> int: ...

    def drop(self) -> None: ...

    async def close(self) -> None: ...


class NodeCall(Protocol):
    """A call, as far as its way is concerned."""

    @property
    def keys(self) -> tuple[str, ...]: ...


class ClusterNodes:
    """A cluster's primaries."""

    def __init__(
        self, url: ClusterUrl, connect: Callable[[str], ClusterNode], patience: float, asking: Any, slots: Any
    ) -> None:
        """connect: pipelines to the node at a URL. patience: seconds. asking, slots: the calls ASKING and CLUSTER SLOTS."""
        self._url = url
        self._connect = connect
        self._patience = patience
        self._asking = asking
        self._slots_call = slots
        self._nodes: dict[Address, ClusterNode] = {}
        self._owners: list[Address] = []
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_at = 0.0
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Callers whose commands were not sent yet."""
        return sum(node.waiting for node in self._nodes.values())

    def drop(self) -> None:
        """Ends all connections, with what is on its way."""
        for node in self._nodes.values():
            node.drop()

    async def close(self) -> None:
        """Ends all connections."""
        ending = {*self._leaving, *({self._refreshing} if self._refreshing is not None else ())}
        for task in ending:
            task.cancel()
        await asyncio.gather(*(node.close() for node in self._nodes.values()), *ending, return_exceptions=True)

    async def url_of(self, key: str) -> str:
        """The URL of the node that holds a key or a channel, as the nodes say now. Raises RedisError, OSError."""
        await self._refresh()
        return self._url.of(self._owners[key_slot(key.encode())])

    def is_at(self, key: str, url: str) -> bool:
        """Whether a node is still the one that holds a key, as far as is known."""
        return self._url.of(self._owners[key_slot(key.encode())]) == url

    async def ask(self, calls: Sequence[NodeCall], *, many: bool) -> list[Any]:
        """The replies, in order; an error that Redis answered is in its place. Raises RedisError and OSError where not all of them came:
        some of the calls may have been carried out."""
        if not self._owners:
            await self._refresh()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        replies: list[Any] = [None] * len(calls)
        left: Sequence[int] = range(len(calls))
        sent_on: dict[int, Address] = {}
        pause = _PAUSES[0]
        for rounds in count(1):
            left, late = await self._ask_once(calls, left, sent_on, replies, many=many)
            if not left or loop.time() + pause >= deadline:
                break
            if any(isinstance(replies[i], OSError | RedisConnectionError) for i in left):
                # Where no node answers, waiting is in vain.
                await self._refresh()
            if late or rounds > _HOPS:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _PAUSES[1])
        return replies

    async def _ask_once(
        self,
        calls: Sequence[NodeCall],
        left: Sequence[int],
        sent_on: dict[int, Address],
        replies: list[Any],
        *,
        many: bool,
    ) -> tuple[list[int], bool]:
        """Asks for what is left. Answers what has to be asked again, and whether not at once."""
        parts: defaultdict[Address, list[int]] = defaultdict(list)
        for i in left:
            parts[sent_on[i] if i in sent_on else self._owner(calls[i])].append(i)
        asked = []
        for address, indices in parts.items():
            node = self._node(address)
            # What was sent on is asked with leave to be answered by a node that does not hold the slot yet.
            part: list[Any] = [call for i in indices for call in self._spelt(calls[i], i in sent_on)]
            asked.append((indices, (node.many if many else node.few).put(part)))
        again: list[int] = []
        late = False
        failure: BaseException | None = None
        try:
            for indices, each in asked:
                try:
                    found = await each.replies
                except (RedisError, OSError) as error:
                    self._refresh_soon()
                    if each.unconnected and _is_lasting(error):
                        late = True
                        again += indices
                        for i in indices:
                            sent_on.pop(i, None)
                            replies[i] = error
                    else:
                        failure = error
                    continue
                at = iter(found)
                for i in indices:
                    reply = next(at)
                    if sent_on.pop(i, None) is not None:
                        reply = next(at)
                    replies[i] = reply
                    if isinstance(reply, ResponseError):
                        go_on, wait = self._understand(i, str(reply), sent_on)
                        late = late or wait
                        if go_on:
                            again.append(i)
        finally:
            _let_go(each for _, each in asked)
        if failure is not None:
            raise failure
        return sorted(again), late

    def _spelt(self, call: NodeCall, with_leave: bool) -> tuple[Any, ...]:
        return (self._asking, call) if with_leave else (call,)

    def _understand(self, i: int, text: str, sent_on: dict[int, Address]) -> tuple[bool, bool]:
        """Whether to ask again what a node refused, and whether to wait first."""
        match text.split(" "):
            case ["MOVED", slot, address, *_]:
                was, self._owners[int(slot)] = self._owners[int(slot)], address
                self._refresh_soon()
                # To and fro: they are not of one mind yet.
                return True, was == address
            case ["ASK", _, address, *_]:
                sent_on[i] = address
                return True, False
            case ["TRYAGAIN", *_]:
                return True, True
            case ["CLUSTERDOWN", *_]:
                self._refresh_soon()
                return True, True
        return False, False

    def _owner(self, call: NodeCall) -> Address:
        # What has no key may go to any of them: asked again, to another one.
        return self._owners[key_slot(call.keys[0].encode()) if call.keys else random.randrange(SLOTS)]

    def _node(self, address: Address) -> ClusterNode:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = self._connect(self._url.of(address))
        return node

    def _refresh_soon(self) -> None:
        """Asks who holds what, unless that was done just now."""
        loop = asyncio.get_running_loop()
        if self._refreshing is None and loop.time() - self._refreshed_at > _RARELY_SECONDS:
            self._begin_refresh()

    def _begin_refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._ask_owners())
            self._refreshing.add_done_callback(self._refreshed)
        return self._refreshing

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        self._refreshed_at = asyncio.get_running_loop().time()
        if not task.cancelled() and task.exception() is not None:
            _log.warning("no node of the Redis Cluster tells who holds what", reason=str(task.exception()))

    async def _refresh(self) -> None:
        await asyncio.shield(self._begin_refresh())

    async def _ask_owners(self) -> None:
        known = list({*self._nodes, *self._url.seeds})
        random.shuffle(known)
        failure: Exception | None = None
        for i in range(0, len(known), _WITNESSES):
            try:
                self._take_owners(await self._ask_some(known[i : i + _WITNESSES]))
            except (RedisError, OSError) as error:
                failure = error
            else:
                return
        raise failure or RedisConnectionError("no node is known")

    async def _ask_some(self, addresses: Sequence[Address]) -> list[Address]:
        """The first answer of some nodes."""
        asking = [asyncio.create_task(self._ask_node(address)) for address in addresses]
        failure: Exception | None = None
        try:
            for answered in asyncio.as_completed(asking):
                try:
                    return await answered
                except (RedisError, OSError) as error:
                    failure = error
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        assert failure is not None
        raise failure

    async def _ask_node(self, address: Address) -> list[Address]:
        (told,) = await self._node(address).few.ask([self._slots_call])
        if isinstance(told, Exception):
            raise told
        host = address.rpartition(":")[0]
        owners = [""] * SLOTS
        for first, last, primary, *_ in told:
            told_host = (primary[0] or b"").decode()
            at = _address(told_host, primary[1]) if told_host not in ("", "?") else f"{host}:{primary[1]}"
            owners[first : last + 1] = [at] * (last + 1 - first)
        held = [owner for owner in owners if owner]
        if not held:
            raise RedisConnectionError("the Redis Cluster holds no slots yet")
        # Who asks a slot's neighbour is told where it is, or that nobody has it.
        return [owner or held[0] for owner in owners]

    def _take_owners(self, owners: list[Address]) -> None:
        self._owners = owners
        for address in self._nodes.keys() - set(owners) - set(self._url.seeds):
            task = asyncio.create_task(self._leave(self._nodes.pop(address)))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _leave(self, node: ClusterNode) -> None:
        """Leaves a node that holds nothing any more, once it has had the time to answer what it was asked."""
        try:
            await asyncio.sleep(self._patience)
        finally:
            await node.close()


def _is_lasting(error: Exception) -> bool:
    """Whether waiting may help: not with a wrong password."""
    return isinstance(error, OSError | RedisConnectionError) and type(error).__name__ != "AuthenticationError"


def _let_go(asked: Iterable[Asked]) -> None:
    """Nobody waits for the rest any more."""
    for each in asked:
        if not each.replies.done():
            each.replies.cancel()
