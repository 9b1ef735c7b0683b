"""MongoDB as a one-node replica set.

Functions import PyMongo when they run: the command line imports this module, and most commands start no server.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.embedded.binaries import Binary
from server.embedded.child_process import ServerProgram

if TYPE_CHECKING:
    from pymongo import MongoClient

    _Client = MongoClient[dict[str, Any]]

REPLICA_SET = "rs0"

_NOT_YET_INITIALIZED = 94
_SELECTION_TIMEOUT_MS = 2000


def mongod(binary: Binary, home: Path) -> ServerProgram:
    """Return MongoDB with its data in `home`, as a replica set of one node."""
    return _program(binary, home, ("--replSet", REPLICA_SET), _make_primary)


def mover(binary: Binary, home: Path) -> ServerProgram:
    """Return the same server without its replica set, for changing the address of the set.

    As a member of the set it would first look for itself at the old address, which may take half a minute.
    """
    return _program(binary, home, (), _move_replica_set)


def mongo_url(port: int) -> str:
    """Return the URL of the replica set."""
    return f"mongodb://{_address(port)}/?replicaSet={REPLICA_SET}"


def _program(
    binary: Binary, home: Path, replica_set_options: tuple[str, ...], step: Callable[[_Client, int], bool]
) -> ServerProgram:
    def command(port: int) -> list[str]:
        return [
            str(binary.path),
            *("--dbpath", str(home)),
            *("--port", str(port)),
            *("--bind_ip", "127.0.0.1"),
            *replica_set_options,
            # The defaults are half of the memory and 5 % of the disk.
            *("--wiredTigerCacheSizeGB", "0.25"),
            *("--oplogSize", "256"),
            # A killed server would leave its Unix socket behind, which blocks a mongod of another user.
            "--nounixsocket",
            "--quiet",
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            # There is no other node that could be elected.
            *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0"),
            # A server that is killed during a change of a group leaves its rows locked for this time. Default: 60 s.
            *("--setParameter", "transactionLifetimeLimitSeconds=10"),
        ]

    return ServerProgram("MongoDB", "CONFAB_MONGO_URL", binary, home, command, partial(_run_when_listening, step), 30.0)


def _make_primary(client: _Client, port: int) -> bool:
    from pymongo.errors import OperationFailure

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


def _run_when_listening(step: Callable[[_Client, int], bool], port: int, pid: int) -> bool:
    from pymongo import MongoClient
    from pymongo.errors import ConnectionFailure, OperationFailure

    # Creating a client costs threads and time, so check that the server listens first.
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    client: _Client = MongoClient(
        "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=_SELECTION_TIMEOUT_MS
    )
    with client:
        try:
            return client.admin.command("serverStatus")["pid"] == pid and step(client, port)
        except (ConnectionFailure, OperationFailure):
            # The server refuses or closes connections while it reads its configuration. Try again.
            return False


def _address(port: int) -> str:
    return f"127.0.0.1:{port}"
