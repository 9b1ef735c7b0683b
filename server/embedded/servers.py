"""Runs MongoDB and Redis for the lifetime of one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from server.embedded import ports
from server.embedded.binaries import find_mongod, find_redis
from server.embedded.child_process import ChildProcess, ServerProgram
from server.embedded.errors import PortTaken
from server.embedded.folder import DataFolder, RunningServers
from server.embedded.mongod import mongo_url, mongod, mover
from server.embedded.valkey import redis_url, valkey

_MEGABYTE = 1_000_000
# A new MongoDB allocates 300 MB.
_MIN_FREE_FOR_NEW_BYTES = 500 * _MEGABYTE
_MIN_FREE_TO_START_BYTES = 100 * _MEGABYTE
_MIN_FREE_TO_RUN_BYTES = 16 * _MEGABYTE
_PORT_ATTEMPTS = 3


class EmbeddedServers:
    """MongoDB (a one-node replica set) and Redis under `data_dir`, from `start` to `stop`, or in a `with` block.

    The servers end with this process, even if it is killed. Servers that a killed run left on the same folder are
    stopped first. With `mongo` or `redis` False, that server is not started. Ports are the given ones, or those of the
    last run, or free ones. `on_progress` gets a message for each step. Not thread-safe.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        mongo: bool = True,
        redis: bool = True,
        mongo_port: int | None = None,
        redis_port: int | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self._folder = DataFolder(data_dir)
        self._wanted = {"mongo": mongo, "redis": redis}
        self._given_ports = {"mongo": mongo_port, "redis": redis_port}
        self._report = on_progress or (lambda _message: None)
        self._launcher: ThreadPoolExecutor | None = None
        self._children: dict[str, ChildProcess] = {}
        self.was_empty = False
        """True if the data folder had no data of MongoDB before `start`."""

    @property
    def mongo_url(self) -> str:
        """URL of MongoDB. Raises RuntimeError if it is not started."""
        return mongo_url(self._child("mongo").port)

    @property
    def redis_url(self) -> str:
        """URL of Redis. Raises RuntimeError if it is not started."""
        return redis_url(self._child("redis").port)

    @property
    def mongo_pid(self) -> int | None:
        """Process id of MongoDB, or None while it is not running."""
        return self._child("mongo").pid

    @property
    def redis_pid(self) -> int | None:
        """Process id of Redis, or None while it is not running."""
        return self._child("redis").pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the servers, and wait until they are ready. Raises EmbeddedError, after stopping everything."""
        try:
            programs = self._open()
            self._start_all(programs)
            self._folder.announce(
                RunningServers(
                    mongo_url=self.mongo_url if "mongo" in self._children else None,
                    redis_url=self.redis_url if "redis" in self._children else None,
                )
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Shut the servers down cleanly, and release the folder. Idempotent."""
        for child in self._children.values():
            child.signal_stop()
        for child in self._children.values():
            child.stop()
        self._children.clear()
        if self._launcher is not None:
            self._launcher.shutdown()
            self._launcher = None
        self._folder.close()

    def check(self) -> None:
        """Fail if a server has died by itself, or if the disk is almost full. Raises EmbeddedError with the reason.

        On a full disk MongoDB keeps running, but refuses every write.
        """
        for child in self._children.values():
            child.check()
        self._folder.check_free_space(_MIN_FREE_TO_RUN_BYTES)

    def start_mongo(self) -> None:
        """Start MongoDB again on the same port, after `kill_mongo` or `stop_mongo`. Raises EmbeddedError."""
        self._restart("mongo")

    def start_redis(self) -> None:
        """Start Redis again, empty, after `kill_redis` or `stop_redis`. Raises EmbeddedError."""
        self._restart("redis")

    def stop_mongo(self) -> None:
        """Shut MongoDB down cleanly."""
        self._child("mongo").stop()

    def stop_redis(self) -> None:
        """Shut Redis down cleanly. Its data is lost."""
        self._child("redis").stop()

    def kill_mongo(self) -> None:
        """Kill MongoDB, as a crash would."""
        self._child("mongo").kill()

    def kill_redis(self) -> None:
        """Kill Redis, as a crash would."""
        self._child("redis").kill()

    def _open(self) -> dict[str, ServerProgram]:
        folder = self._folder
        folder.open()
        self.was_empty = folder.is_new()
        folder.check_free_space(
            _MIN_FREE_FOR_NEW_BYTES if self.was_empty and self._wanted["mongo"] else _MIN_FREE_TO_START_BYTES
        )
        programs = {}
        if self._wanted["mongo"]:
            programs["mongo"] = mongod(find_mongod(), folder.home("mongo"))
        if self._wanted["redis"]:
            programs["redis"] = valkey(find_redis(), folder.home("redis"))
        return programs

    def _start_all(self, programs: dict[str, ServerProgram]) -> None:
        self._launcher = ThreadPoolExecutor(1, thread_name_prefix="embedded-launcher")
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._assign_ports(programs)
            try:
                self._run_all()
            except PortTaken:
                # Another program took the port in the meantime. Try another port, unless it was given.
                if attempt == _PORT_ATTEMPTS or any(self._given_ports.values()):
                    raise
                for child in self._children.values():
                    child.stop()
            else:
                self._folder.save_ports({name: child.port for name, child in self._children.items()})
                return

    def _assign_ports(self, programs: dict[str, ServerProgram]) -> None:
        assert self._launcher is not None
        saved = self._folder.load_ports()
        for name, program in programs.items():
            child = ChildProcess(program, 0, self._launcher)
            if child.stop_leftover():
                self._report(f"Stopped {program.name}, which a killed run had left behind")
            child.port = self._choose_port(program, self._given_ports[name], saved.get(name))
            self._children[name] = child
            if name == "mongo" and not self.was_empty and child.port != saved.get(name):
                self._move_mongo(child)

    def _choose_port(self, program: ServerProgram, given: int | None, saved: int | None) -> int:
        if given is not None:
            if not ports.is_free(given):
                raise PortTaken(
                    f"Port {given} for {program.name} is in use: stop the other program, or choose another port."
                )
            return given
        if saved is not None and ports.is_free(saved):
            return saved
        return ports.pick_free(*(child.port for child in self._children.values()))

    def _move_mongo(self, child: ChildProcess) -> None:
        assert self._launcher is not None
        self._report(f"Moving the replica set to port {child.port}")
        program = child.program
        standalone = ChildProcess(mover(program.binary, program.home), child.port, self._launcher)
        try:
            standalone.launch()
            standalone.await_ready()
        finally:
            standalone.stop()

    def _run_all(self) -> None:
        started = time.monotonic()
        for child in self._children.values():
            self._report(f"Starting {child.program.name} on port {child.port} ({child.program.binary.origin})")
            child.launch()
        # Redis first: it is ready earlier, so both reported times are right.
        for child in reversed(list(self._children.values())):
            child.await_ready()
            self._report(f"{child.program.name} is ready after {time.monotonic() - started:.1f} s")

    def _restart(self, name: str) -> None:
        child = self._child(name)
        if child.pid is None:
            child.launch()
            child.await_ready()

    def _child(self, name: str) -> ChildProcess:
        try:
            return self._children[name]
        except KeyError:
            raise RuntimeError(f"embedded {name} is not started") from None
