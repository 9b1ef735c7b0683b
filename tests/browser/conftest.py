"""Confab in development mode, with the demo's people, for programs that use it in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis
from redis.cluster import RedisCluster

from resolvers.push.services.vapid import VapidKey
from server.cli.dev import development_settings
from server.demo.seed import seed_demo
from tests.browser.programs import Outcomes, has_failed, run_again_if_failed, run_program
from tests.conftest import own_database, own_prefix
from tests.server.served_app import serving_app

OutcomesOf = Callable[[str], Awaitable[Outcomes]]
"""Returns the results of a program's checks."""


@pytest.fixture(scope="module")
def outcomes(
    mongo_url: str,
    redis_url: str,
    _mongo_janitor: MongoClient[dict[str, Any]],
    _redis_janitor: Redis | RedisCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> OutcomesOf:
    """Run a program at the first request for it, each run on a new Confab."""
    found: dict[str, Outcomes] = {}

    async def run(program: str) -> Outcomes:
        pictures = tmp_path_factory.mktemp(program)
        async with serve_development(mongo_url, redis_url, _mongo_janitor, _redis_janitor) as url:
            made = await run_program(program, url, pictures)
        if has_failed(made):
            print(f"Pictures of what was seen: {pictures}")
        return made

    async def of(program: str) -> Outcomes:
        if program not in found:
            found[program] = await run_again_if_failed(lambda: run(program))
        return found[program]

    return of


@asynccontextmanager
async def serve_development(
    mongo_url: str,
    redis_url: str,
    mongo: MongoClient[dict[str, Any]],
    redis: Redis | RedisCluster,
) -> AsyncIterator[str]:
    """Run `confab dev` in this process on its own databases. Browsers may have push services on loopback."""
    with own_database(mongo) as database, own_prefix(redis) as prefix:
        # Not the default claim: a page that reads the user from the token shows the wrong one.
        settings = development_settings(
            mongo_url=mongo_url,
            redis_url=redis_url,
            mongo_database=database,
            redis_prefix=prefix,
            jwt_user_claim="uid",
            allow_loopback=True,
            vapid_private_key=VapidKey.generate().private_text,
            vapid_contact="mailto:tests@example.org",
        )
        assert await seed_demo(settings)
        async with serving_app(settings) as app:
            yield f"http://127.0.0.1:{app.served.port}"
