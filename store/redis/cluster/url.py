"""Addresses of a Redis Cluster and of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

Address = str
"""`host:port`, as the cluster reports it. An IPv6 host stands in brackets."""


@dataclass(frozen=True, slots=True)
class ClusterUrl:
    """`redis+cluster://[user:password@]host:port,host:port[?options]`, or `rediss+cluster` for TLS.

    Any of the cluster's nodes may be named; they report the others.
    """

    scheme: str
    login: str
    seeds: tuple[Address, ...]
    options: str

    def node_url(self, address: Address) -> str:
        """Return the URL of one node."""
        return f"{self.scheme}://{self.login}{address}{self.options}"


def parse_cluster_url(url: str) -> ClusterUrl | None:
    """Return the parts of a cluster's URL, or None if it is the URL of a single Redis.

    Raises ValueError if malformed.
    """
    scheme, plus, rest = url.partition("+cluster://")
    if not plus:
        return None
    location, mark, options = rest.partition("?")
    login, at, hosts = location.rpartition("@")
    parts = [urlsplit(f"//{host}") for host in hosts.removesuffix("/0").rstrip("/").split(",")]
    if scheme not in {"redis", "rediss"} or not all(part.hostname and not part.path for part in parts):
        raise ValueError("not the address of a cluster")
    seeds = tuple(join_address(part.hostname or "", part.port or 6379) for part in parts)
    return ClusterUrl(scheme, login + at, seeds, mark + options)


def join_address(host: str, port: int) -> Address:
    """Return a node's address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
