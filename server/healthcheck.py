"""Health check of a container: `python -m server.healthcheck [PATH]`.

Exits with 0 if `GET PATH` on CONFAB_PORT of this machine answers 200, otherwise with 1. The default path is /healthz,
which fails if the process should be replaced. /readyz fails while the process should not get requests. The module
imports nothing else of Confab, because it runs every few seconds.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException

_TIMEOUT_SECONDS = 6.0
"""Longer than the timeout of the checks behind /readyz."""


def is_healthy(path: str = "/healthz", port: int | None = None) -> bool:
    """Return whether the server answers 200 for the path."""
    connection = HTTPConnection(
        "127.0.0.1", port or int(os.environ.get("CONFAB_PORT") or 8000), timeout=_TIMEOUT_SECONDS
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_healthy(sys.argv[1] if len(sys.argv) > 1 else "/healthz") else 1)
