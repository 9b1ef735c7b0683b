"""A Redis Cluster of embedded servers: real nodes, with slots that move and nodes that end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from redis import Redis
from redis.exceptions import ClusterDownError, RedisError, ResponseError

from server.embedded import launch
from server.embedded.binaries import find_redis
from server.embedded.ports import pick_free

SLOTS = 16_384
_PATIENCE_SECONDS = 60.0
_BUSY_MACHINE_MS = 30_000
"""Milliseconds that nodes wait for each other: long enough that a busy machine costs no node."""


class ClusterNode:
    """One server process of a cluster."""

    def __init__(self, folder: Path, taken: Sequence[int], node_timeout_ms: int, *, full_coverage: bool) -> None:
        self.port = pick_free(*taken)
        bus = pick_free(*taken, self.port)
        home = folder / str(self.port)
        home.mkdir()
        command = [str(find_redis().path), "--dir", str(home), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--cluster-enabled", "yes", "--cluster-port", str(bus)]
        command += ["--cluster-node-timeout", str(node_timeout_ms), "--repl-diskless-sync-delay", "0"]
        command += ["--cluster-require-full-coverage", "yes" if full_coverage else "no"]
        self.bus = bus
        # This ends the process when the tests end.
        self._command = [sys.executable, launch.__file__, str(os.getpid()), *command]
        self._log = home / "log"
        self.start()

    def start(self) -> None:
        """Start the process. After an earlier start it is empty, and has the same slots."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        self.client = Redis(port=self.port, socket_timeout=_PATIENCE_SECONDS)

    def run(self, *words: str | int) -> object:
        return self.client.execute_command(*words)

    def set_slot(self, slot: int, *state: str) -> None:
        """Change the state of a slot. Retry while the primary refuses because its replicas do not answer within 2 s."""

        def is_set() -> bool:
            try:
                self.run("CLUSTER", "SETSLOT", slot, *state)
            except ResponseError as error:
                if not str(error).startswith("NOREPLICAS"):
                    raise
                return False
            return True

        until(is_set)

    def migrate(self, target: ClusterNode, *keys: str | bytes) -> None:
        """Move keys to another node."""
        patience_ms = round(_PATIENCE_SECONDS * 1000)
        self.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, patience_ms, "KEYS", *keys)

    @property
    def id(self) -> str:
        answer = self.run("CLUSTER", "MYID")
        return answer.decode() if isinstance(answer, bytes) else str(answer)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.client.close()


class OwnCluster:
    """Primaries with equal shares of the slots. Replicas, if there are any, belong to the first primaries, one each."""

    def __init__(
        self, folder: Path, primaries: int, replicas: int, node_timeout_ms: int, *, full_coverage: bool
    ) -> None:
        self.nodes: list[ClusterNode] = []
        for _ in range(primaries + replicas):
            taken = [port for node in self.nodes for port in (node.port, node.bus)]
            self.nodes.append(ClusterNode(folder, taken, node_timeout_ms, full_coverage=full_coverage))
        self.primaries, self.replicas = self.nodes[:primaries], self.nodes[primaries:]

    def join(self) -> None:
        for node in self.nodes:
            until(lambda node=node: _answers(node))
        for i, node in enumerate(self.primaries):
            # Every node begins in an epoch of its own, so they need not agree on the owners of slots first.
            node.run("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            share = range(i * SLOTS // len(self.primaries), (i + 1) * SLOTS // len(self.primaries))
            node.run("CLUSTER", "ADDSLOTSRANGE", share[0], share[-1])
        first = self.nodes[0]
        for node in self.nodes[1:]:
            first.run("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus)
        until(lambda: all(_knows(node, self.nodes) for node in self.nodes))
        for primary, replica in zip(self.primaries, self.replicas, strict=False):
            replica.run("CLUSTER", "REPLICATE", primary.id)
        until(lambda: all(b"master_link_status:up" in _info(replica) for replica in self.replicas))
        until(lambda: all(_is_well(node) for node in self.nodes))

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.primaries)

    def owner(self, slot: int) -> ClusterNode:
        """Return the primary of a slot, as the first living primary says."""
        for first, last, (_, port, *_), *_ in self.nodes[-1].client.execute_command("CLUSTER SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError("nobody has it")

    def shard_of(self, slot: int) -> int:
        """Return the number of the shard that had a slot at the start."""
        return next(i for i in range(9) if slot < (i + 1) * SLOTS // len(self.primaries))

    def fail_over(self, number: int, *, by_vote: bool = False) -> None:
        """Kill the primary of a shard, and let its replica take over. by_vote: after the node timeout."""
        self.primaries[number].kill()
        self.replace(number, by_vote=by_vote)

    def replace(self, number: int, *, by_vote: bool = False) -> None:
        """Let the replica of a shard take over."""
        former, promoted = self.primaries[number], self.replicas[number]
        if not by_vote:
            promoted.run("CLUSTER", "FAILOVER", "TAKEOVER")
        self.primaries[number], self.replicas[number] = promoted, former
        others = [node for i, node in enumerate(self.primaries) if i != number]
        until(lambda: all(_sees_primary(node, promoted) for node in others))

    def begin_move(self, slot: int) -> tuple[ClusterNode, ClusterNode]:
        """Begin to move a slot. Returns the source and the target."""
        source = self.owner(slot)
        target = next(node for node in self.primaries if node is not source)
        target.set_slot(slot, "IMPORTING", source.id)
        source.set_slot(slot, "MIGRATING", target.id)
        return source, target

    def move_keys(self, slot: int, source: ClusterNode, target: ClusterNode, most: int = 1_000) -> int:
        """Move keys of a moving slot, and return their number."""
        keys = source.run("CLUSTER", "GETKEYSINSLOT", slot, most)
        assert isinstance(keys, list)

        def is_moved() -> bool:
            # While news of another move spreads, a node can take the cluster for incomplete for some seconds.
            with suppress(ClusterDownError):
                source.migrate(target, *keys)
                return True
            return False

        if keys:
            until(is_moved)
        return len(keys)

    def end_move(self, slot: int, source: ClusterNode, target: ClusterNode) -> None:
        while self.move_keys(slot, source, target):
            pass
        for node in (target, source, *(node for node in self.primaries if node not in (source, target))):
            node.set_slot(slot, "NODE", target.id)

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()


@contextmanager
def redis_cluster(
    primaries: int = 3, replicas: int = 0, node_timeout_ms: int = _BUSY_MACHINE_MS, *, full_coverage: bool = True
) -> Iterator[OwnCluster]:
    """Start a cluster.

    node_timeout_ms: time after which a silent node is replaced. full_coverage: with a dead shard, no node answers.
    """
    folder = Path(tempfile.mkdtemp(prefix="confab-cluster-"))
    cluster = OwnCluster(folder, primaries, replicas, node_timeout_ms, full_coverage=full_coverage)
    try:
        cluster.join()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def until(check: object) -> None:
    """Wait until a condition holds."""
    assert callable(check)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not check():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def _answers(node: ClusterNode) -> bool:
    with suppress(RedisError, OSError):
        return bool(node.client.ping())
    return False


def _info(node: ClusterNode) -> bytes:
    reply = node.client.execute_command("CLUSTER INFO")
    replication = node.client.info("replication")
    return str(reply).encode() + b"\n" + "\n".join(f"{k}:{v}" for k, v in replication.items()).encode()


def _knows(node: ClusterNode, nodes: Sequence[ClusterNode]) -> bool:
    """Return whether a node knows the ids of all nodes. It uses a random id for a node that has not answered yet."""
    known = str(node.client.execute_command("CLUSTER NODES"))
    return all(other.id in known for other in nodes)


def _sees_primary(node: ClusterNode, promoted: ClusterNode) -> bool:
    owned = node.client.execute_command("CLUSTER SLOTS")
    return any(port == promoted.port for _, _, (_, port, *_), *_ in owned)


def _is_well(node: ClusterNode) -> bool:
    reply = node.client.execute_command("CLUSTER INFO")
    return reply.get("cluster_state") == "ok" if isinstance(reply, dict) else "cluster_state:ok" in str(reply)
