"""Runs the workers of a deployment in a process without HTTP: pushes, webhooks and jobs."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

import structlog

from server.errors import CommandError
from server.observability.metrics_server import serve_metrics
from server.observability.worker_metrics import WorkerMetrics
from server.opening import log_when_open
from server.process.interpreter_tuning import tune_interpreter
from server.services import Services, open_services
from server.settings import Settings

_log = structlog.get_logger("server.cli")


def run_worker(settings: Settings) -> None:
    """Work until SIGINT or SIGTERM. Then complete what has begun; other processes do the rest.

    Raises CommandError if the stored data is of a newer version, or if other servers are incompatible.
    """
    tune_interpreter()
    asyncio.run(_work(settings))


async def _work(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(open_services(settings))
        await _serve_metrics(settings, services, stack)
        _log.info("worker_started", push_services=sorted(services.app.push_services))
        log_task = asyncio.create_task(log_when_open(services.app.store, services.opened))
        stack.callback(log_task.cancel)
        waits = [asyncio.create_task(event.wait()) for event in (stop, services.must_stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    if services.must_stop.is_set():
        raise CommandError("The worker stopped: the log above says why.")
    _log.info("worker_stopped")


async def _serve_metrics(settings: Settings, services: Services, stack: AsyncExitStack) -> None:
    if settings.metrics_port is None:
        return
    metrics = WorkerMetrics(services.app.store, services.push_worker, services.webhooks)
    token = settings.metrics_token.get_secret_value() if settings.metrics_token is not None else None
    address = (settings.metrics_host, settings.metrics_port, settings.metrics_port_count)
    await stack.enter_async_context(serve_metrics(metrics, *address, token))
