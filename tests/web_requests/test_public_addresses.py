"""Only public IP addresses are connected to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolvers.web_requests.public_addresses import is_public

# The IANA registries of special-purpose addresses, and of IPv4 and IPv6 address space, written down once more.
NOT_PUBLIC_V4 = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"),
]
NOT_PUBLIC_V6 = [
    *("::/8", "100::/8", "200::/7", "400::/6", "800::/5", "1000::/4", "4000::/3", "6000::/3", "8000::/3", "a000::/3"),
    *("c000::/3", "e000::/4", "f000::/5", "f800::/6", "fc00::/7", "fe00::/9", "fe80::/10", "fec0::/10", "ff00::/8"),
    *("2001::/32", "2001:2::/48", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2002::/16", "3fff::/20"),
    "5f00::/16",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "172.32.0.1", "198.20.0.1", "2606:4700::1111", "2a00:1450:4001::1"]


def within(network: str) -> st.SearchStrategy[str]:
    found = ip_network(network)
    kind = IPv4Address if isinstance(found, IPv4Network) else IPv6Address
    first, last = int(found.network_address), int(found.broadcast_address)
    return st.integers(first, last).map(lambda number: str(kind(number)))


def embedded(address: str) -> list[str]:
    """Return all IPv6 addresses that lead to an IPv4 address."""
    number = int(IPv4Address(address))
    forms = [
        number,
        0xFFFF << 32 | number,
        0xFFFF << 48 | number,
        0x64_FF9B << 96 | number,
        0x64_FF9B_0001 << 80 | number,
        0x2002 << 112 | number << 80 | 1,
        0x2001 << 112 | (number ^ 0xFFFFFFFF),
        0x2001 << 112 | number << 64,
        0x2606_4700 << 96 | 0x5EFE << 32 | number,
        0x2606_4700 << 96 | 0x200_5EFE << 32 | number,
    ]
    return [str(IPv6Address(form)) for form in forms]


@given(st.sampled_from(NOT_PUBLIC_V4).flatmap(within))
def test_no_special_ipv4_address_is_public_in_any_form(address: str) -> None:
    assert not is_public(address)
    assert not any(map(is_public, embedded(address)))


@given(st.sampled_from(NOT_PUBLIC_V6).flatmap(within))
def test_no_special_ipv6_address_is_public(address: str) -> None:
    nat64, mapped = IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0/96")
    assert not is_public(address) or IPv6Address(address) in nat64 or IPv6Address(address) in mapped


@given(within("0.0.0.0/0") | within("2000::/3") | within("2606:4700::/32"))
def test_all_other_addresses_are_public(address: str) -> None:
    special = any(
        IPv4Address(address) in IPv4Network(network) if "." in address else IPv6Address(address) in IPv6Network(network)
        for network in (NOT_PUBLIC_V4 if "." in address else [*NOT_PUBLIC_V6, "2001::/23", "2620:4f:8000::/48"])
    )
    assert is_public(address) is not special


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


def test_ipv4_sites_are_reached_through_nat64_and_as_mapped_addresses() -> None:
    assert is_public("64:ff9b::1.1.1.1")
    assert is_public("::ffff:1.1.1.1")


@pytest.mark.parametrize("text", ["", "localhost", "1.1.1", "0x7f.1", "2130706433", "2606:4700::1%1", "1.1.1.1/8"])
def test_anything_but_one_address_is_not_public(text: str) -> None:
    assert not is_public(text)


def test_the_networks_of_the_operator_are_allowed_in_all_forms() -> None:
    allowed = (IPv4Network("10.1.0.0/16"), IPv6Network("fd00::/8"))
    assert all(is_public(address, allowed) for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1"))
    assert not any(is_public(address, allowed) for address in ("10.2.0.1", "127.0.0.1", "fe80::1", "fd00::1%1"))
