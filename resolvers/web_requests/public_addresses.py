"""Decides which IP addresses the server may connect to for a user: public ones only (ADR 78)."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network

LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

_REFUSED_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # between a provider and its customers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, with the metadata services of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # IETF protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # relays of multicast
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

_ALLOCATED_V6 = IPv6Network("2000::/3")
"""The only part of IPv6 with public addresses, except NAT64."""

_REFUSED_V6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # IETF protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in an IPv6 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)

_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
"""In networks with IPv6 only, addresses of IPv4 sites look like this. A gateway connects to the last 32 bits."""

_ISATAP = (0x00005EFE, 0x02005EFE)
"""Third quarter of IPv6 addresses that are tunnelled to the IPv4 address in the last quarter."""


def is_ip_address(text: str) -> bool:
    """Return whether text is an IP address, and no name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(text: str) -> bool:
    """Return whether text is an IP address of this machine."""
    try:
        return any(ip_address(text) in network for network in LOOPBACK)
    except ValueError:
        return False


def is_public(text: str, allowed: Sequence[Network] = ()) -> bool:
    """Return whether an IP address is public, or in one of the `allowed` networks of the operator.

    An IPv4 address inside an IPv6 address is judged itself. Addresses with a zone (`fe80::1%eth0`) are not public.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if address in _MAPPED or address in _NAT64:
            address = IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in allowed):
        return True
    # The registry of the standard library has further networks in later versions of Python.
    if not address.is_global or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        return False
    return address in _ALLOCATED_V6 and not any(address in network for network in _REFUSED_V6)
