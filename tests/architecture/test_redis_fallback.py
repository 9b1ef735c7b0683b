"""Few places know whether the Redis fallback is used: `CacheBackend` contains what differs (ADR 31)."""

from __future__ import annotations

import re

from tests.architecture.sources import PACKAGES, ROOT, modules

READERS = {
    "resolvers/base/app.py",
    "resolvers/groups/group_creation.py",
    "store/deployment/deployment.py",
    "store/deployment/redis_generations.py",
    "store/deployment/stale_caches.py",
    "store/messages/idempotency_claims.py",
    "store/sessions/user_locks.py",
    "store/workspaces/copies/membership_stamps.py",
    "subscriptions/delivery/event_publisher.py",
}
"""Modules outside `store/redis` that behave differently. ADR 31 gives the reasons. The set should only shrink."""


def test_only_these_modules_ask_whether_the_fallback_is_used() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in modules(*PACKAGES)
        if re.search(r"cache\.is_shared\b", path.read_text())
    }
    assert found <= READERS


def test_only_the_generations_switch_between_redis_and_the_fallback() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in modules(*PACKAGES)
        if re.search(r"\.(use|leave)_fallback\(", path.read_text())
    }
    assert found == {"store/deployment/redis_generations.py"}
