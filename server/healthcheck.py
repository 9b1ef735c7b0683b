"""`python -m server.healthcheck [PATH]`: whether the server of this container answers, for what keeps containers running.

Ends with 0 where `GET PATH` on CONFAB_PORT of this machine answers 200, else with 1. The path is /healthz unless given: that says
whether the process should be replaced, /readyz whether it should be sent requests. It loads nothing of Confab's: it runs every few seconds.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException

_PATIENCE = 6.0
"""Seconds: more than /readyz gives what it asks."""


def is_well(path: str = "/healthz", port: int | None = None) -> bool:
    """Whether the server answers 200 there."""
    connection = HTTPConnection("127.0.0.1", port or int(os.environ.get("CONFAB_PORT") or 8000), timeout=_PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_well(sys.argv[1] if len(sys.argv) > 1 else "/healthz") else 1)
