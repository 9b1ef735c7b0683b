"""MongoDB as a one-node replica set."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure

from server.embedded.binaries import Binary
from server.embedded.child_process import ServerProgram

REPLICA_SET = "rs0"

_NOT_YET_INITIALIZED = 94
_ANSWER_WITHIN = 2000

_Client = MongoClient[dict[str, Any]]


def mongod(binary: Binary, home: Path) -> ServerProgram:
    """MongoDB with its data in `home`, as a replica set of one."""
    return _program(binary, home, ("--replSet", REPLICA_SET), _make_primary)


def mover(binary: Binary, home: Path) -> ServerProgram:
    """The same, outside of its replica set, for as long as it takes to give the set the new address.

    Started inside, it would first look for itself at the old address, half a minute if somebody sits there in silence.
    """
    return _program(binary, home, (), _move_replica_set)


def mongo_url(port: int) -> str:
    """Where a client finds the replica set."""
    return f"mongodb://{_address(port)}/?replicaSet={REPLICA_SET}"


def _program(
    binary: Binary, home: Path, membership: tuple[str, ...], step: Callable[[_Client, int], bool]
) -> ServerProgram:
    def command(port: int) -> list[str]:
        return [
            str(binary.path),
            *("--dbpath", str(home)),
            *("--port", str(port)),
            *("--bind_ip", "127.0.0.1"),
            *membership,
            # By default it takes half of the memory, and 5 % of the disk.
            *("--wiredTigerCacheSizeGB", "0.25"),
            *("--oplogSize", "256"),
            # Its Unix socket would stay behind after a kill, and hinder the mongod of another user.
            "--nounixsocket",
            "--quiet",
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            # There is no other node whose election is worth waiting for.
            *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0"),
            # A server that is killed in the middle of a group's change leaves its rows locked for that long (a minute by default).
            *("--setParameter", "transactionLifetimeLimitSeconds=10"),
        ]

    return ServerProgram("MongoDB", "CONFAB_MONGO_URL", binary, home, command, partial(_when_it_answers, step), 30.0)


def _make_primary(client: _Client, port: int) -> bool:
    try:
        client.admin.command("replSetGetConfig")
    except OperationFailure as error:
        if error.code != _NOT_YET_INITIALIZED:
            raise
        members = [{"_id": 0, "host": _address(port)}]
        client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
    return bool(client.admin.command("hello")["isWritablePrimary"])


def _move_replica_set(client: _Client, port: int) -> bool:
    change = {"$set": {"members.0.host": _address(port)}, "$inc": {"version": 1}}
    client["local"]["system.replset"].update_one({"_id": REPLICA_SET}, change)
    return True


def _when_it_answers(step: Callable[[_Client, int], bool], port: int, pid: int) -> bool:
    # A client costs threads and time: only for a server that listens.
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    client: _Client = MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=_ANSWER_WITHIN)
    with client:
        try:
            return client.admin.command("serverStatus")["pid"] == pid and step(client, port)
        except (ConnectionFailure, OperationFailure):
            # While it reads its configuration or changes its state it refuses or hangs up: ask again.
            return False


def _address(port: int) -> str:
    return f"127.0.0.1:{port}"
