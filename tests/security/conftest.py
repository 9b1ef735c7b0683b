"""Fixtures of the API tests and of the server tests: attackers use the engine and the network."""

from __future__ import annotations

from tests.api.conftest import api, deployments, open_api, other_process, process
from tests.server.conftest import serve_app

__all__ = ["api", "deployments", "open_api", "other_process", "process", "serve_app"]
