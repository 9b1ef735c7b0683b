"""Both servers together, for as long as one process needs them."""

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
# A new MongoDB lays out 300 MB before the first message.
_ROOM_FOR_NEW = 500 * _MEGABYTE
_ROOM_FOR_MORE = 100 * _MEGABYTE
_ROOM_TO_GO_ON = 16 * _MEGABYTE
_PORT_ATTEMPTS = 3


class EmbeddedServers:
    """MongoDB (a one-node replica set) and Redis under `data_dir`, from `start` to `stop` or in a `with`.

    They end with this process, however it ends; what a killed run may have left on the same folder is stopped
    first. `mongo` or `redis` False: leave that one out. Ports: those given, else those of the last run, else
    free ones. `on_progress` is told in sentences what happens. Not for use from two threads at once.
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
        self._tell = on_progress or (lambda _sentence: None)
        self._launcher: ThreadPoolExecutor | None = None
        self._children: dict[str, ChildProcess] = {}
        self.was_empty = False
        """Whether the data folder held no MongoDB data before `start`."""

    @property
    def mongo_url(self) -> str:
        """Raises RuntimeError if MongoDB was left out or not started yet."""
        return mongo_url(self._child("mongo").port)

    @property
    def redis_url(self) -> str:
        """Raises RuntimeError if Redis was left out or not started yet."""
        return redis_url(self._child("redis").port)

    @property
    def mongo_pid(self) -> int | None:
        """None while MongoDB isn't running."""
        return self._child("mongo").pid

    @property
    def redis_pid(self) -> int | None:
        """None while Redis isn't running."""
        return self._child("redis").pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return when both serve. Raises EmbeddedError, with nothing left running."""
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
        """Shut both down cleanly and release the folder. Safe to call twice."""
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
        """Raises EmbeddedError, with the reason, if one of them has died by itself or the disk is all but full.

        On a full disk MongoDB lives on, and refuses every write.
        """
        for child in self._children.values():
            child.check()
        self._folder.check_room(_ROOM_TO_GO_ON)

    def start_mongo(self) -> None:
        """Start MongoDB again, where it was, after `kill_mongo` or `stop_mongo`. Raises EmbeddedError."""
        self._start_again("mongo")

    def start_redis(self) -> None:
        """Start Redis again, empty, after `kill_redis` or `stop_redis`. Raises EmbeddedError."""
        self._start_again("redis")

    def stop_mongo(self) -> None:
        """Shut MongoDB down cleanly."""
        self._child("mongo").stop()

    def stop_redis(self) -> None:
        """Shut Redis down cleanly. What it held is lost."""
        self._child("redis").stop()

    def kill_mongo(self) -> None:
        """End MongoDB as a crash would."""
        self._child("mongo").kill()

    def kill_redis(self) -> None:
        """End Redis as a crash would."""
        self._child("redis").kill()

    def _open(self) -> dict[str, ServerProgram]:
        folder = self._folder
        folder.open()
        self.was_empty = folder.is_new()
        folder.check_room(_ROOM_FOR_NEW if self.was_empty and self._wanted["mongo"] else _ROOM_FOR_MORE)
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
                # Somebody was quicker. Where the port is ours to choose, choose again.
                if attempt == _PORT_ATTEMPTS or any(self._given_ports.values()):
                    raise
                for child in self._children.values():
                    child.stop()
            else:
                self._folder.remember_ports({name: child.port for name, child in self._children.items()})
                return

    def _assign_ports(self, programs: dict[str, ServerProgram]) -> None:
        assert self._launcher is not None
        remembered = self._folder.recall_ports()
        for name, program in programs.items():
            child = ChildProcess(program, 0, self._launcher)
            if child.stop_leftover():
                self._tell(f"Stopped {program.name}, left over from a run that was killed")
            child.port = self._choose_port(program, self._given_ports[name], remembered.get(name))
            self._children[name] = child
            if name == "mongo" and not self.was_empty and child.port != remembered.get(name):
                self._move_mongo(child)

    def _choose_port(self, program: ServerProgram, given: int | None, remembered: int | None) -> int:
        if given is not None:
            if not ports.is_free(given):
                raise PortTaken(
                    f"Port {given}, meant for {program.name}, is taken: "
                    "stop what listens there, or choose another port."
                )
            return given
        if remembered is not None and ports.is_free(remembered):
            return remembered
        return ports.pick_free(*(child.port for child in self._children.values()))

    def _move_mongo(self, child: ChildProcess) -> None:
        assert self._launcher is not None
        self._tell(f"Moving the replica set to port {child.port}")
        program = child.program
        alone = ChildProcess(mover(program.binary, program.home), child.port, self._launcher)
        try:
            alone.launch()
            alone.await_ready()
        finally:
            alone.stop()

    def _run_all(self) -> None:
        started = time.monotonic()
        for child in self._children.values():
            self._tell(f"Starting {child.program.name} on port {child.port} ({child.program.binary.origin})")
            child.launch()
        # Redis first: it is ready long before, and the times told are then true for both.
        for child in reversed(list(self._children.values())):
            child.await_ready()
            self._tell(f"{child.program.name} is ready after {time.monotonic() - started:.1f} s")

    def _start_again(self, name: str) -> None:
        child = self._child(name)
        if child.pid is None:
            child.launch()
            child.await_ready()

    def _child(self, name: str) -> ChildProcess:
        try:
            return self._children[name]
        except KeyError:
            raise RuntimeError(f"embedded {name} is not started") from None
