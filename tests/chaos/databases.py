"""A MongoDB replica set of three members and a Redis that can keep what it holds, behind links that can be hurt.

The members know each other, and are known to clients, by their links' ports: a stalled link cuts a member off from the others' requests
too. To Redis each server has a link of its own.
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
class Addresses:
    """Where one server finds the databases."""

    mongo_url: str
    redis_url: str


class Databases:
    """All of them, from `with` to its end. They end with this process, however it ends. Calls block, but for none of a fault's time."""

    def __init__(self, folder: Path, servers: int) -> None:
        """servers: how many there are to be links to Redis for."""
        self._folder = folder
        self._servers = servers
        self._launcher = ThreadPoolExecutor(1, thread_name_prefix="chaos-launcher")
        self._links: list[int] = []
        self._proxy: subprocess.Popen[bytes] | None = None
        self.members: list[ChildProcess] = []
        self.redis: ChildProcess

    @property
    def mongo_url(self) -> str:
        """Through the links."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._links[:MEMBERS])
        return f"mongodb://{hosts}/?replicaSet={_SET}"

    @property
    def addresses(self) -> list[Addresses]:
        """For each server."""
        return [Addresses(self.mongo_url, redis_url(port)) for port in self._links[MEMBERS:]]

    @property
    def redis_links(self) -> range:
        """The places of the links to Redis, in the order of the servers."""
        return range(MEMBERS, MEMBERS + self._servers)

    @property
    def true_redis_url(self) -> str:
        """Past its link."""
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
        with self._direct(0) as client:
            client.admin.command("replSetInitiate", {"_id": _SET, "members": members, "settings": settings})
        self.await_primary()

    def stop(self) -> None:
        """Ends all, each by its own process id. Fine if it was done before."""
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

    def set_link(self, place: int, mode: str, seconds: float = 0.0) -> None:
        """What becomes of what a link carries: `proxy` names the modes."""
        assert self._proxy is not None and self._proxy.stdin is not None
        self._proxy.stdin.write(f"{place} {mode} {seconds}\n".encode())
        self._proxy.stdin.flush()
        self._await_proxy()

    def _await_proxy(self) -> None:
        assert self._proxy is not None and self._proxy.stdout is not None
        if not self._proxy.stdout.readline():
            raise RuntimeError("the proxy ended")

    # --- MongoDB

    def primary(self) -> int | None:
        """The place of the member that says that it is the primary, of the latest term."""
        found: tuple[int, int] | None = None
        for number, child in enumerate(self.members):
            if child.pid is None:
                continue
            try:
                with self._direct(number) as client:
                    told = client.admin.command("hello")
            except PyMongoError:
                continue
            if told["isWritablePrimary"]:
                term = int.from_bytes(told["electionId"].binary, "big")
                found = max(found or (0, 0), (term, number))
        return found[1] if found else None

    def await_primary(self) -> int:
        """The place of the primary, once there is one. Raises TimeoutError."""
        deadline = time.monotonic() + _PRIMARY_SECONDS
        while time.monotonic() < deadline:
            found = self.primary()
            if found is not None:
                return found
            time.sleep(0.1)
        raise TimeoutError("MongoDB has no primary")

    def step_down(self, seconds: int) -> None:
        """The primary gives up its place for so long, if there is one."""
        number = self.primary()
        if number is not None:
            with self._direct(number) as client:
                try:
                    client.admin.command({"replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": 1, "force": True})
                except PyMongoError:
                    return

    def lock_disk(self, number: int, *, locked: bool) -> None:
        """A member's disk takes no more writes, or again; reading goes on."""
        with self._direct(number) as client:
            try:
                client.admin.command({"fsync": 1, "lock": True} if locked else {"fsyncUnlock": 1})
            except PyMongoError:
                return

    def client(self) -> MongoClient[dict[str, Any]]:
        """For looking at what is stored. To be closed by the caller."""
        return MongoClient(self.mongo_url, readConcernLevel="majority")

    def _direct(self, number: int) -> MongoClient[dict[str, Any]]:
        port = self.members[number].port
        return MongoClient(
            "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=2000, socketTimeoutMS=4000
        )

    # --- Redis

    async def flush_redis(self) -> None:
        """Everything in it is gone."""
        async with AsyncRedis.from_url(self.true_redis_url) as redis:
            await redis.flushall()

    async def count_unfinished(self, prefix: str) -> int:
        """The messages in all outboxes of the generation of keys that counts, the latest. 1 where Redis was lost just now."""
        async with AsyncRedis.from_url(self.true_redis_url) as redis:
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
        """What Redis holds now, for `restart_redis` to begin with some other time."""
        with Redis.from_url(self.true_redis_url) as client:
            client.save()
        self._dump.rename(self._snapshot)

    def stop_redis(self, *, keeping: bool = False) -> None:
        """As a crash does. keeping: what it holds is on disk before."""
        if keeping:
            with Redis.from_url(self.true_redis_url) as client:
                client.save()
        self.redis.kill()

    def start_redis(self, begins_with: str) -> None:
        """With "nothing", with what it "kept", or with the "earlier" snapshot, if there is one."""
        if begins_with == "nothing":
            self._dump.unlink(missing_ok=True)
        elif begins_with == "earlier" and self._snapshot.exists():
            shutil.copy(self._snapshot, self._dump)
        self.redis.launch()
        self.redis.await_ready()
        self._dump.unlink(missing_ok=True)


async def hold_process(pid: int, seconds: float) -> None:
    """SIGSTOP, and SIGCONT after so long, if the process is still there."""
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        # It may have been killed while it stood still.
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
