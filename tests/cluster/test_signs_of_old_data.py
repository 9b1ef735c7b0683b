"""A primary that may have old data of another node is recognised, also under an unknown shard id."""

from __future__ import annotations

from typing import cast

import pytest
from redis.asyncio.connection import AbstractConnection

from store.redis.admission import ClusterReport, ConnectionAdmission, RedisIdentity
from store.redis.calls import Call
from store.redis.cluster.nodes import ClusterNodes
from store.redis.cluster.url import parse_cluster_url
from store.redis.node import RedisNode

NO_ID = "0" * 40
ANSWERS = {"INFO": "", "CLUSTER MYSHARDID": "shard", "CLUSTER MYID": "node", "CLUSTER INFO": "cluster_my_epoch:4\r\n"}


class _Connection:
    """A connection to a primary with the given lines in its answer to INFO."""

    def __init__(self, *lines: str) -> None:
        info = "\r\n".join(("run_id:abc", "role:master", *lines, ""))
        self._answers = ANSWERS | {"INFO": info}
        self._command = ""

    async def send_command(self, name: str, *words: str) -> None:
        self._command = name if name == "INFO" else f"{name} {words[0]}"

    async def send_packed_command(self, _command: object) -> None:
        """Do nothing: there are no scripts to load."""

    def pack_commands(self, commands: object) -> object:
        return commands

    async def read_response(self) -> bytes:
        return self._answers[self._command].encode()


async def _identify(*lines: str) -> RedisIdentity:
    found = []

    async def admit(redis: RedisIdentity) -> None:
        found.append(redis)

    async def read_report() -> ClusterReport:
        return ClusterReport()

    admission = ConnectionAdmission((), is_cluster=True)
    admission.admit = admit
    await admission.check(cast(AbstractConnection, _Connection(*lines)), read_report)
    return found[0]


async def test_an_empty_primary_that_joins_has_no_old_data() -> None:
    assert not (await _identify(f"master_replid2:{NO_ID}", "rdb_last_load_keys_loaded:0")).has_loaded_data


@pytest.mark.parametrize(
    "lines",
    [
        [f"master_replid2:{'a' * 40}", "rdb_last_load_keys_loaded:0"],
        # It took over an hour ago and has had no replica since then: `repl-backlog-ttl` has removed the second id.
        [f"master_replid2:{NO_ID}", "rdb_last_load_keys_loaded:7"],
        # A new node with a snapshot of a primary that had no replicas: the file has no replication id.
        [f"master_replid2:{NO_ID}", "rdb_last_load_keys_loaded:7000"],
        # Without these lines of INFO, a primary may have old data.
        [],
    ],
)
async def test_a_primary_with_data_of_another_node_is_recognised(lines: list[str]) -> None:
    assert (await _identify(*lines)).has_loaded_data


class _Member:
    """A node that answers questions."""

    async def ask(self, question: Call) -> object:
        match question.args:
            case ("NODES",):
                return (
                    b"one 10.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383\n"
                    b"two 10.0.0.2:1@2 master - 0 0 6 connected\n"
                )
            case ("MYID",):
                return b"one"
        return []


async def test_the_epoch_of_a_primary_without_slots_is_not_noted() -> None:
    """It may become a replica and then a primary again with the same epoch.

    CLUSTER FAILOVER TAKEOVER keeps the epoch of a node if that is the highest one.
    """
    url = parse_cluster_url("redis+cluster://127.0.0.1:1")
    assert url is not None
    report = await ClusterNodes(url, lambda _: cast(RedisNode, _Member())).read_report(cast(RedisNode, _Member()))
    assert report.primary_epochs == {"one": 1}
