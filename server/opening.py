"""Start and end of a process in its deployment: indexes, worker number, scripts."""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from store.base.errors import StoreError
from store.deployment.shared_formats import IncompatibleServer
from store.mongo.migrations import Migrator, NewerData
from store.store import Store
from subscriptions.realtime.ring.server_ring import ServerRing

_log = structlog.get_logger()

_RELEASE_SECONDS = 2.0
"""Time limit for giving back the worker number."""


async def open_databases(
    store: Store,
    ring: ServerRing,
    data_center: int,
    opened: asyncio.Event,
    must_stop: asyncio.Event,
    migrator: Migrator | None,
) -> None:
    """Prepare indexes, the deployment's name, a worker number and scripts. Retries until both databases answer.

    Raises NewerData and IncompatibleServer.
    """
    formats = store.deployment.formats
    formats.on_incompatible = partial(_stop, store, must_stop)
    pause = 0.1
    while True:
        try:
            await store.deployment.open()
            await formats.check()
            await store.deployment.worker_numbers.lease(store.ids, data_center)
            try:
                await formats.check()
            except IncompatibleServer:
                await release_worker_number(store, data_center)
                raise
            ring.update(await store.deployment.worker_numbers.list_ring())
            await store.cache.load_scripts()
            opened.set()
            if migrator is not None:
                migrator.open()
            return
        except NewerData as newer:
            _log.critical("data_version_too_new", reason=str(newer))
            _stop(store, must_stop)
            raise
        except IncompatibleServer as incompatible:
            _log.critical("shared_format_incompatible", reason=str(incompatible))
            _stop(store, must_stop)
            raise
        except StoreError as error:
            _log.warning("waiting_for_databases", reason=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)


async def log_when_open(store: Store, opened: asyncio.Event) -> None:
    """Log the id of this server, by which `confab admin connections` names it, once its databases are open."""
    await opened.wait()
    deployment = store.deployment
    _log.info("databases_opened", server=deployment.owner, shared_format=deployment.formats.number)


def _stop(store: Store, must_stop: asyncio.Event) -> None:
    """Refuse all calls of databases, and end the process."""
    store.deployment.refuse_calls()
    must_stop.set()


async def release_worker_number(store: Store, data_center: int) -> None:
    """Give back the worker number, so that another process can take it at once. It does not matter if this fails."""
    try:
        async with asyncio.timeout(_RELEASE_SECONDS):
            await store.deployment.worker_numbers.release(store.ids, data_center)
    except (StoreError, TimeoutError):
        _log.info("worker_number_not_released")
