"""Finds the reason in the log of a server that ended."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

from server.embedded.errors import EmbeddedError, PortTaken
from server.embedded.folder import disk_full_error

_LIBRARY = re.compile(r"error while loading shared libraries: ([^\s:]+)")
_LIBRARY_VERSION = re.compile(r"version `([^']+)' not found")
_CANNOT_EXECUTE = re.compile(r"cannot execute \S+: (.+)")
_NO_SPACE = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded")
_VERSION_MISMATCH = re.compile(
    r"UPGRADE PROBLEM|Wrong mongod version|Invalid feature compatibility version|too recent to start up"
    r"|unsupported WiredTiger file"
)
_DAMAGED_DATA = re.compile(r'"ctx":"initandlisten","msg":"(Fatal assertion|WiredTiger error message)"')
_DEBIAN_PACKAGES = {"libcurl": "libcurl4", "libcrypto": "libssl3", "libssl": "libssl3"}
_MIN_FREE_BYTES = 1 << 20


def explain_exit(
    name: str, variable: str, log: Path, output: str, exit_code: int, port: int, home: Path
) -> EmbeddedError:
    """Return the reason why a server ended, and what to do.

    Args:
        name: Name of the server.
        variable: Setting that selects another server instead.
        log: Path of the log.
        output: Content of the log since the start.
        exit_code: Exit code of the process.
        port: Port of the server.
        home: Its data directory.
    """
    alternative = f"or set {variable} to a server of your own"
    library = _LIBRARY.search(output) or _LIBRARY_VERSION.search(output)
    if library is not None:
        package = next((deb for stem, deb in _DEBIAN_PACKAGES.items() if library[1].startswith(stem)), None)
        hint = f" (on Debian and Ubuntu: apt-get install {package})" if package else ""
        return EmbeddedError(
            f"{name} needs {library[1]}, which is missing on this system: install it{hint}, {alternative}."
        )
    refused = _CANNOT_EXECUTE.search(output)
    if refused is not None:
        return EmbeddedError(
            f"{name} cannot be executed on this system ({refused[1]}): install one that can, {alternative}."
        )
    if exit_code == -signal.SIGILL:
        return EmbeddedError(f"{name} needs a newer processor (x86-64 with AVX): use another machine, {alternative}.")
    if "Address already in use" in output:
        return PortTaken(f"Port {port} for {name} is in use: stop the other program, or choose another port.")
    if not home.is_dir():
        return EmbeddedError(f"{home}, the data folder of {name}, was deleted: start again with an empty one.")
    # On a full disk the log may not contain the error.
    if _NO_SPACE.search(output) or shutil.disk_usage(home).free < _MIN_FREE_BYTES:
        return disk_full_error(home)
    if exit_code == -signal.SIGKILL:
        return EmbeddedError(
            f"{name} was killed, possibly because memory ran out: see the system's log, then try again."
        )
    if _VERSION_MISMATCH.search(output):
        return EmbeddedError(f"{home} was written by another version of {name}: move it away, or use that version.")
    if _DAMAGED_DATA.search(output):
        return EmbeddedError(
            f"{name} cannot read its data in {home}: move it away to start with an empty one (log: {log})."
        )
    how = f"exit code {exit_code}" if exit_code >= 0 else signal.Signals(-exit_code).name
    return EmbeddedError(f"{name} ended with {how}{_last_error(output)}: see {log}.")


def _last_error(output: str) -> str:
    for line in reversed(output.splitlines()):
        try:
            entry = json.loads(line)
        except ValueError:
            # Valkey marks warnings with # after the time.
            if " # " in line:
                return f" ({line.partition(' # ')[2].strip()})"
            continue
        if isinstance(entry, dict) and entry.get("s") in {"E", "F"}:
            return f" ({str(entry.get('msg')).strip()})"
    return ""
