"""The API as attackers meet it: through the engine, and over the network."""

from __future__ import annotations

from tests.api.conftest import api, deployments, open_api, other_process, process
from tests.server.conftest import serve_app

__all__ = ["api", "deployments", "open_api", "other_process", "process", "serve_app"]
