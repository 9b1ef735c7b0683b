"""The slots of one shard of a Redis Cluster, as several nodes report them: some too many, but none too few."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from store.redis.cluster.url import Address, join_address

_MOVING = re.compile(r"\[(\d+)-[<>]-(\w+)\]")


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """One line of `CLUSTER NODES`.

    Attributes:
        id: The node.
        addresses: Its address, by IP address and by host name if it has one.
        primary: The id of its primary; "-" for a primary.
        config_epoch: Its configuration epoch; of a replica that of its primary.
        slots: The slots that it owns.
        moving: Slots that are being moved to or from the node that reports, with the other node. Empty for other nodes.
    """

    id: str
    addresses: Sequence[Address]
    primary: str
    config_epoch: int
    slots: frozenset[int]
    moving: dict[int, str]


def parse_nodes(text: str) -> list[NodeEntry]:
    """Return the lines of an answer to `CLUSTER NODES`."""
    return [_parse_line(line.split()) for line in text.splitlines() if line.strip()]


def _parse_line(words: Sequence[str]) -> NodeEntry:
    id, place, _, primary = words[:4]
    location, *names = place.split(",")
    host, _, port = location.partition("@")[0].rpartition(":")
    hosts = [host, *(name for name in names[:1] if name)]
    slots: set[int] = set()
    moving: dict[int, str] = {}
    for word in words[8:]:
        found = _MOVING.fullmatch(word)
        if found is not None:
            moving[int(found[1])] = found[2]
        else:
            first, _, last = word.partition("-")
            slots.update(range(int(first), int(last or first) + 1))
    addresses = [join_address(host.strip("[]"), int(port)) for host in hosts if host]
    return NodeEntry(id, addresses, primary, int(words[6]), frozenset(slots), moving)


def parse_shard_members(shards: Sequence[Sequence[Any]], node: str) -> set[str]:
    """Return the ids of the nodes in the shard of a node, from an answer to `CLUSTER SHARDS`."""
    for shard in shards:
        fields = dict(zip(shard[::2], shard[1::2], strict=True))
        ids = {_fields_of(member)["id"] for member in fields[b"nodes"]}
        if node in ids:
            return ids
    return {node}


def _fields_of(member: Sequence[Any]) -> dict[str, str]:
    pairs = zip(member[::2], member[1::2], strict=True)
    return {name.decode(): value.decode() for name, value in pairs if isinstance(value, bytes)}


def find_members(members: Collection[str], reports: Iterable[Sequence[NodeEntry]]) -> set[str]:
    """Return the ids of all nodes of a shard: the given ones, and their primaries and replicas in any report."""
    entries = [entry for report in reports for entry in report]
    found = set(members)
    found |= {entry.primary for entry in entries if entry.id in found and entry.primary != "-"}
    return found | {entry.id for entry in entries if entry.primary in found}


def find_slots(members: Collection[str], reports: Iterable[Sequence[NodeEntry]]) -> set[int]:
    """Return the slots that a shard owns in any report, and those that are being moved to or from it.

    members: the ids of its nodes.
    """
    slots: set[int] = set()
    for report in reports:
        for entry in report:
            if entry.id in members:
                slots |= entry.slots | entry.moving.keys()
            else:
                slots.update(slot for slot, other in entry.moving.items() if other in members)
    return slots


def find_addresses(members: Collection[str], reports: Iterable[Sequence[NodeEntry]]) -> set[Address]:
    """Return the addresses of the nodes of a shard in any report."""
    return {address for report in reports for entry in report if entry.id in members for address in entry.addresses}
