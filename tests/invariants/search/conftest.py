"""Servers of one deployment, as tests of the API open them."""

from __future__ import annotations

from tests.api.conftest import deployments, open_api

__all__ = ["deployments", "open_api"]
