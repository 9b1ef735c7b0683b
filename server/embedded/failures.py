"""Why a server ended, told from what it left in its log."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

from server.embedded.errors import EmbeddedError, PortTaken
from server.embedded.folder import full_disk

_LIBRARY = re.compile(r"error while loading shared libraries: ([^\s:]+)")
_LIBRARY_VERSION = re.compile(r"version `([^']+)' not found")
_CANNOT_EXECUTE = re.compile(r"cannot execute \S+: (.+)")
_NO_SPACE = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded")
_OTHER_VERSION = re.compile(
    r"UPGRADE PROBLEM|Wrong mongod version|Invalid feature compatibility version|too recent to start up"
    r"|unsupported WiredTiger file"
)
_DAMAGED = re.compile(r'"ctx":"initandlisten","msg":"(Fatal assertion|WiredTiger error message)"')
_DEBIAN_PACKAGES = {"libcurl": "libcurl4", "libcrypto": "libssl3", "libssl": "libssl3"}
_ALMOST_NOTHING = 1 << 20


def explain(name: str, variable: str, log: Path, told: str, exit_code: int, port: int, home: Path) -> EmbeddedError:
    """Why a server ended, in one sentence. `told`: what it said since it started; `variable`: the way out."""
    instead = f"or set {variable} to a server of your own"
    library = _LIBRARY.search(told) or _LIBRARY_VERSION.search(told)
    if library is not None:
        package = next((deb for stem, deb in _DEBIAN_PACKAGES.items() if library[1].startswith(stem)), None)
        hint = f" (on Debian and Ubuntu: apt-get install {package})" if package else ""
        return EmbeddedError(f"{name} needs {library[1]}, which this system lacks: install it{hint}, {instead}.")
    refused = _CANNOT_EXECUTE.search(told)
    if refused is not None:
        return EmbeddedError(
            f"{name} cannot be executed on this system ({refused[1]}): install one that can, {instead}."
        )
    if exit_code == -signal.SIGILL:
        return EmbeddedError(f"{name} needs a newer processor (x86-64 with AVX): use another machine, {instead}.")
    if "Address already in use" in told:
        return PortTaken(f"Port {port}, meant for {name}, is taken: stop what listens there, or choose another port.")
    if not home.is_dir():
        return EmbeddedError(f"{home}, where {name} had its data, is gone: start again to begin anew.")
    # A full disk has no room for the log either.
    if _NO_SPACE.search(told) or shutil.disk_usage(home).free < _ALMOST_NOTHING:
        return full_disk(home)
    if exit_code == -signal.SIGKILL:
        return EmbeddedError(f"{name} was killed, perhaps for want of memory: see the system's log, then try again.")
    if _OTHER_VERSION.search(told):
        return EmbeddedError(f"{home} was written by another version of {name}: move it away, or use that version.")
    if _DAMAGED.search(told):
        return EmbeddedError(f"{name} cannot read its data in {home}: move it away to begin anew (log: {log}).")
    how = f"exit code {exit_code}" if exit_code >= 0 else signal.Signals(-exit_code).name
    return EmbeddedError(f"{name} ended with {how}{_last_words(told)}: see {log}.")


def _last_words(told: str) -> str:
    for line in reversed(told.splitlines()):
        try:
            entry = json.loads(line)
        except ValueError:
            # Valkey marks warnings by a # after the time.
            if " # " in line:
                return f" ({line.partition(' # ')[2].strip()})"
            continue
        if isinstance(entry, dict) and entry.get("s") in {"E", "F"}:
            return f" ({str(entry.get('msg')).strip()})"
    return ""
