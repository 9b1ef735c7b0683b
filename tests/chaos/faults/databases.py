"""A MongoDB replica set of three members and a Redis, behind proxy links that can be disturbed.

The members and the clients know each member by the port of its link: a stalled link also cuts a member off from the
requests of the others. Each server has a link of its own to Redis.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymongo import MongoClient
from pymongo.errors import PyMongoError
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from server.embedded import ports
from server.embedded.binaries import find_mongod, find_redis
from server.embedded.child_process import ChildProcess, ServerProgram
from server.embedded.valkey import redis_url, valkey
from store.base.ids import PARTITIONS
from store.redis.keys import Keys

MEMBERS = 3

_SET = "chaos"
_PRIMARY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """The databases' URLs for one server."""

    mongo_url: str
    redis_url: str


class FaultyDatabases:
    """The database processes, for the time of a `with` block. They end with this process, however it ends.

    Calls block for as long as the change takes, never for the duration of a fault.
    """

    def __init__(self, folder: Path, servers: int) -> None:
        """Prepare the processes. servers: the number of links to Redis."""
        self._folder = folder
        self._servers = servers
        self._launcher = ThreadPoolExecutor(1, thread_name_prefix="chaos-launcher")
        self._links: list[int] = []
        self._proxy: subprocess.Popen[bytes] | None = None
        self.members: list[ChildProcess] = []
        self.redis: ChildProcess

    @property
    def mongo_url(self) -> str:
        """The replica set, through its links."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._links[:MEMBERS])
        return f"mongodb://{hosts}/?replicaSet={_SET}"

    @property
    def addresses(self) -> list[DatabaseUrls]:
        """The URLs for each server."""
        return [DatabaseUrls(self.mongo_url, redis_url(port)) for port in self._links[MEMBERS:]]

    @property
    def redis_links(self) -> range:
        """The indexes of the links to Redis, in the order of the servers."""
        return range(MEMBERS, MEMBERS + self._servers)

    @property
    def direct_redis_url(self) -> str:
        """Redis without a link."""
        return redis_url(self.redis.port)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        taken: list[int] = []
        for _ in range(2 * MEMBERS + 1 + self._servers):
            taken.append(ports.pick_free(*taken))
        targets, self._links = taken[: MEMBERS + 1], taken[MEMBERS + 1 :]
        homes = [self._folder / f"member{number}" for number in range(MEMBERS)] + [self._folder / "redis"]
        for home in homes:
            home.mkdir(parents=True)
        for port, home in zip(targets[:MEMBERS], homes[:MEMBERS], strict=True):
            self.members.append(ChildProcess(_member(home), port, self._launcher))
        self.redis = ChildProcess(valkey(find_redis(), homes[-1]), targets[-1], self._launcher)
        for child in (*self.members, self.redis):
            child.launch()
        ends = targets[:MEMBERS] + [targets[-1]] * self._servers
        pairs = [f"{link}:{end}" for link, end in zip(self._links, ends, strict=True)]
        program = [sys.executable, str(Path(__file__).with_name("proxy.py")), *pairs]
        self._proxy = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._await_proxy()
        for child in (*self.members, self.redis):
            child.await_ready()
        members = [{"_id": n, "host": f"127.0.0.1:{port}"} for n, port in enumerate(self._links[:MEMBERS])]
        settings = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500, "heartbeatTimeoutSecs": 2}
        # A member whose disk is busy takes some seconds for this.
        with self._direct(0, timeout_ms=60_000) as client:
            client.admin.command("replSetInitiate", {"_id": _SET, "members": members, "settings": settings})
        self.await_primary()

    def stop(self) -> None:
        """End all processes by their own ids. Does nothing the second time."""
        children = [*self.members, *([self.redis] if hasattr(self, "redis") else [])]
        for child in children:
            if child.pid is not None:
                os.kill(child.pid, signal.SIGCONT)
            child.kill()
        if self._proxy is not None:
            assert self._proxy.stdin is not None and self._proxy.stdout is not None
            self._proxy.stdin.close()
            self._proxy.stdout.close()
            self._proxy.kill()
            self._proxy.wait()
            self._proxy = None
        self._launcher.shutdown()

    # --- links

    def set_link(self, index: int, mode: str, seconds: float = 0.0) -> None:
        """Set the mode of a link; the modes are listed in `proxy`."""
        assert self._proxy is not None and self._proxy.stdin is not None
        self._proxy.stdin.write(f"{index} {mode} {seconds}\n".encode())
        self._proxy.stdin.flush()
        self._await_proxy()

    def _await_proxy(self) -> None:
        assert self._proxy is not None and self._proxy.stdout is not None
        if not self._proxy.stdout.readline():
            raise RuntimeError("the proxy ended")

    # --- MongoDB

    def primary(self) -> int | None:
        """Return the index of the member that calls itself primary in the latest term, or None."""
        found: tuple[int, int] | None = None
        for number, child in enumerate(self.members):
            if child.pid is None:
                continue
            try:
                with self._direct(number) as client:
                    hello = client.admin.command("hello")
            except PyMongoError:
                continue
            if hello["isWritablePrimary"]:
                term = int.from_bytes(hello["electionId"].binary, "big")
                found = max(found or (0, 0), (term, number))
        return found[1] if found else None

    def await_primary(self) -> int:
        """Wait for a primary and return its index. Raises TimeoutError."""
        deadline = time.monotonic() + _PRIMARY_SECONDS
        while time.monotonic() < deadline:
            found = self.primary()
            if found is not None:
                return found
            time.sleep(0.1)
        raise TimeoutError("MongoDB has no primary")

    def step_down(self, seconds: int) -> None:
        """Make the primary, if there is one, step down for that many seconds."""
        number = self.primary()
        if number is not None:
            with self._direct(number) as client:
                try:
                    client.admin.command({"replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": 1, "force": True})
                except PyMongoError:
                    return

    def lock_disk(self, number: int, *, locked: bool) -> None:
        """Lock or unlock a member's disk for writes; reads go on."""
        with self._direct(number) as client:
            try:
                client.admin.command({"fsync": 1, "lock": True} if locked else {"fsyncUnlock": 1})
            except PyMongoError:
                return

    def client(self) -> MongoClient[dict[str, Any]]:
        """Return a client that reads what is stored. The caller closes it."""
        return MongoClient(self.mongo_url, readConcernLevel="majority")

    def _direct(self, number: int, timeout_ms: int = 4_000) -> MongoClient[dict[str, Any]]:
        port = self.members[number].port
        return MongoClient(
            "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=2000, socketTimeoutMS=timeout_ms
        )

    # --- Redis

    async def flush_redis(self) -> None:
        """Delete everything in Redis."""
        async with AsyncRedis.from_url(self.direct_redis_url) as redis:
            await redis.flushall()

    async def count_unfinished(self, prefix: str) -> int:
        """Return the number of messages in all outboxes of the latest generation; 1 if Redis was lost just now."""
        async with AsyncRedis.from_url(self.direct_redis_url) as redis:
            marks = [key.decode() async for key in redis.scan_iter(match=f"{prefix}/*epoch", count=1000)]
            if not marks:
                return 1
            keys = Keys(prefix)
            keys.enter(max(int(mark.removeprefix(f"{prefix}/").removesuffix("epoch")) for mark in marks))
            async with redis.pipeline(transaction=False) as pipeline:
                for partition in range(PARTITIONS):
                    pipeline.xlen(keys.outbox(partition))
                return sum(await pipeline.execute())

    @property
    def _dump(self) -> Path:
        return self.redis.program.home / "dump.rdb"

    @property
    def _snapshot(self) -> Path:
        return self.redis.program.home / "earlier.rdb"

    def take_snapshot(self) -> None:
        """Save the contents of Redis, for a later `start_redis` with "snapshot"."""
        with Redis.from_url(self.direct_redis_url) as client:
            client.save()
        self._dump.rename(self._snapshot)

    def stop_redis(self, *, keep: bool = False) -> None:
        """Kill Redis. keep: save its contents to disk first."""
        if keep:
            with Redis.from_url(self.direct_redis_url) as client:
                client.save()
        self.redis.kill()

    def start_redis(self, contents: str) -> None:
        """Start Redis.

        Args:
            contents: "none"; "saved" for what it had when it was killed; "snapshot" for those of `take_snapshot`, if
            any.
        """
        if contents == "none":
            self._dump.unlink(missing_ok=True)
        elif contents == "snapshot" and self._snapshot.exists():
            shutil.copy(self._snapshot, self._dump)
        self.redis.launch()
        self.redis.await_ready()
        self._dump.unlink(missing_ok=True)


async def freeze_process(pid: int, seconds: float) -> None:
    """Send SIGSTOP, and SIGCONT after that many seconds if the process still exists."""
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        # It may have been killed while it was frozen.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _member(home: Path) -> ServerProgram:
    binary = find_mongod()

    def command(port: int) -> list[str]:
        return [
            str(binary.path),
            *("--dbpath", str(home)),
            *("--port", str(port)),
            *("--bind_ip", "127.0.0.1"),
            *("--replSet", _SET),
            *("--wiredTigerCacheSizeGB", "0.25"),
            *("--oplogSize", "64"),
            "--nounixsocket",
            "--quiet",
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0"),
            *("--setParameter", "transactionLifetimeLimitSeconds=10"),
        ]

    return ServerProgram("MongoDB", "CONFAB_MONGO_URL", binary, home, command, _answers, 30.0)


def _answers(port: int, pid: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    client = MongoClient[dict[str, Any]]("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=2000)
    with client:
        try:
            return bool(client.admin.command("serverStatus")["pid"] == pid)
        except PyMongoError:
            return False
