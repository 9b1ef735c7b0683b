"""Fixtures: a store for each test."""

from __future__ import annotations

from tests.store.conftest import store

__all__ = ["store"]
