"""Fixtures of the API tests, for tests that execute operations."""

from __future__ import annotations

from tests.api.conftest import api, deployments, open_api, process

__all__ = ["api", "deployments", "open_api", "process"]
