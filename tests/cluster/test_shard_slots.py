"""The slots of a shard by the reports of several nodes: none is left out."""

from __future__ import annotations

from store.redis.cluster.shard_slots import (
    find_addresses,
    find_members,
    find_slots,
    parse_nodes,
    parse_shard_members,
)

PROMOTED = """\
b2 127.0.0.1:7002@17002,two.example.org myself,master - 0 0 9 connected 0-4 7 [3->-c1] [20-<-a1]
a1 127.0.0.1:7001@17001 master,fail - 0 0 1 disconnected
c1 [::1]:7003@17003 master - 0 0 3 connected 8-9
d1 :0@0 slave,noaddr c1 0 0 3 disconnected
"""
OTHER = """\
b2 127.0.0.1:7002@17002 slave a1 0 0 1 connected
a1 127.0.0.1:7001@17001 master,fail? - 0 0 1 connected 0-5
c1 127.0.0.1:7003@17003 myself,master - 0 0 3 connected 8-9 [9->-a1] [30->-d1]
"""


def test_slots_of_all_reports_and_moving_slots_belong_to_the_shard() -> None:
    reports = [parse_nodes(PROMOTED), parse_nodes(OTHER)]
    members = find_members({"b2"}, reports)
    assert members == {"a1", "b2"}
    # Owned according to one of the two, moving away from it, moving to it, and moving to its former primary.
    assert find_slots(members, reports) == {*range(6), 7, 20, 9}
    assert find_addresses(members, reports) == {"127.0.0.1:7001", "127.0.0.1:7002", "two.example.org:7002"}
    assert find_slots({"c1"}, reports) == {8, 9, 3, 30}
    assert "[::1]:7003" in find_addresses({"c1"}, reports)


def test_the_members_of_a_shard_are_found_by_one_of_them() -> None:
    def member(id: bytes) -> list[object]:
        return [b"id", id, b"port", 7001, b"role", b"master"]

    shards = [[b"slots", [0, 5], b"nodes", [member(b"a1"), member(b"b2")]], [b"slots", [], b"nodes", [member(b"c1")]]]
    assert parse_shard_members(shards, "b2") == {"a1", "b2"}
    assert parse_shard_members(shards, "x") == {"x"}
