"""The hash ring: equal shares, few keys that move, and the same owners everywhere."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions.realtime.ring.hash_ring import VIRTUAL_NODES, HashRing

KEYS = [f"c_{number}.{number % 7}" for number in range(200)]
SERVERS = st.sets(st.binary(min_size=8, max_size=8).map(bytes.hex), min_size=1, max_size=6)


def shares(ring: HashRing) -> list[float]:
    """Return the share of each server, 1 if it is equal to that of the others."""
    found = dict.fromkeys(ring.servers, 0)
    before = ring._places[-1] - 2**64
    for place, server in zip(ring._places, ring._owners, strict=True):
        found[server] += place - before
        before = place
    return [share * len(found) / 2**64 for share in found.values()]


def test_shares_of_servers_differ_little() -> None:
    assert VIRTUAL_NODES == 150
    found = [
        share for ring in range(40) for share in shares(HashRing(f"{ring} {name}" for name in range(2 + ring % 9)))
    ]
    assert sum(abs(share - 1) < 0.15 for share in found) > 0.9 * len(found)
    assert min(found) > 0.65 and max(found) < 1.35


@settings(max_examples=15)
@given(SERVERS, st.data())
def test_only_keys_of_a_server_that_joins_or_leaves_move(servers: set[str], data: st.DataObject) -> None:
    ring, grown = HashRing(servers), HashRing([*servers, "another"])
    for key in KEYS:
        assert grown.owner_of(key) in (ring.owner_of(key), "another")
    if len(servers) > 1:
        left = data.draw(st.sampled_from(sorted(servers)))
        shrunk = HashRing(servers - {left})
        for key in KEYS:
            owner = ring.owner_of(key)
            assert shrunk.owner_of(key) == owner if owner != left else shrunk.owner_of(key) != left


@settings(max_examples=10)
@given(SERVERS, st.randoms())
def test_servers_that_know_the_same_servers_agree(servers: set[str], random: Random) -> None:
    shuffled = sorted(servers)
    random.shuffle(shuffled)
    one, other = HashRing(servers), HashRing([*shuffled, *shuffled])
    assert [one.owner_of(key) for key in KEYS] == [other.owner_of(key) for key in KEYS]


def test_owners_are_the_same_in_all_releases() -> None:
    """Servers of two versions run side by side."""
    ring = HashRing(["one", "two", "three"])
    owners = [ring.owner_of(f"c_7.{number}") for number in range(8)]
    assert owners == ["one", "two", "two", "one", "two", "two", "three", "one"]
