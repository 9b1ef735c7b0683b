"""A server over databases of its own, and `confab admin` on the same ones."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TextIO

import pytest
from pymongo import MongoClient

from server.cli import commands as cli
from server.services import open_services
from server.settings import Settings
from tests.api.client import Api

Json = dict[str, Any]
RunAdmin = Callable[..., Awaitable[tuple[int, str, str]]]
Show = Callable[..., Awaitable[Json]]


class ThreadOutput(io.StringIO):
    """Keeps the output of one thread. Output of other threads, such as the test's server, goes to another stream."""

    def __init__(self, other_output: TextIO) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self._other_output = other_output

    def write(self, text: str) -> int:
        return super().write(text) if threading.get_ident() == self._thread else self._other_output.write(text)


@pytest.fixture
async def api(settings: Settings, _mongo_janitor: MongoClient[Json]) -> AsyncIterator[Api]:
    async with open_services(settings, start_wait_seconds=120) as services:
        api = Api(services, _mongo_janitor, settings.mongo_database)
        yield api
        await api.stop_subscriptions()


@pytest.fixture
def run_admin(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> RunAdmin:
    """Run `confab admin`. Returns the exit code, and what it prints to both outputs."""
    for name in ("mongo_url", "redis_url", "mongo_database", "redis_prefix"):
        monkeypatch.setenv(f"CONFAB_{name.upper()}", str(getattr(settings, name)))
    # It would send the logs of later tests to the output of this one.
    monkeypatch.setattr("server.observability.logs.configure_logging", lambda settings: None)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["confab", "admin", *arguments])
        out, err = ThreadOutput(sys.stdout), ThreadOutput(sys.stderr)
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as caught:
            cli.main()
        assert isinstance(caught.value.code, int)
        return caught.value.code, out.getvalue(), err.getvalue()

    # The command runs a loop of its own.
    return lambda *arguments: asyncio.to_thread(run, *arguments)


@pytest.fixture
def show(run_admin: RunAdmin) -> Show:
    """Run a command that succeeds, and return its view."""

    async def show(*arguments: str) -> Json:
        code, out, err = await run_admin(*arguments, "--json")
        assert (code, err) == (0, "")
        view: Json = json.loads(out)
        return view

    return show
