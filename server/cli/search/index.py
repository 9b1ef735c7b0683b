"""Rebuilds the index of messages, and prints its state."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from server.cli.clocks import read_clock
from server.cli.store_errors import store_errors_as_command_errors
from server.errors import database_error
from server.settings import Settings
from store.base.clock import DeploymentClock
from store.base.errors import Unreachable
from store.base.snowflakes import created_at_ms
from store.deployment.present_generation import use_present_generation
from store.messages.message_fields import MessageField
from store.mongo.client import Mongo
from store.mongo.collections import MESSAGES
from store.mongo.migrations import check_version
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.search.index_state import IndexState
from store.search.index_states import IndexStates
from store.search.mongo_search_index import MongoSearchIndex
from store.search.past_indexing import PastIndexing, Report
from store.search.unindexed_messages import UnindexedMessages

_PAUSE_RATIO = 0.25
"""Seconds of pause for each second of work. Servers that index the past pause longer."""

_POLL_SECONDS = 1.0


class _Connected(NamedTuple):
    mongo: Mongo
    clock: DeploymentClock
    states: IndexStates


@asynccontextmanager
async def _connected(settings: Settings) -> AsyncIterator[_Connected]:
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        with store_errors_as_command_errors():
            await check_version(mongo)
            clock = DeploymentClock(await read_clock(mongo, settings.mongo_database))
            yield _Connected(mongo, clock, IndexStates(mongo, clock, secrets.token_hex(8), lambda: ""))
    finally:
        await mongo.close()


async def rebuild_index(settings: Settings, console: Console, report: Callable[[str], None]) -> None:
    """Rebuild the index, or follow the process that does. Raises CommandError."""
    async with _connected(settings) as (mongo, clock, states):
        state = await states.begin_rebuild()
        past = PastIndexing(mongo, MongoSearchIndex(mongo), states, clock, _PAUSE_RATIO)
        oldest = await mongo.find(MESSAGES, {}, sort=[(MessageField.ID, 1)], limit=1, projection={MessageField.ID: 1})
        first_id = oldest[0][MessageField.ID] if oldest else 0
        with _progress(console, first_id) as on_progress:
            while not await past.run(on_progress):
                state = await states.read()
                on_progress(state)
                if state.is_complete:
                    break
                await asyncio.sleep(_POLL_SECONDS)
        report(f"The index is complete. This command indexed {past.indexed:,} messages.")


async def print_status(settings: Settings, report: Callable[[str], None]) -> None:
    """Print the state of the index. Raises CommandError if MongoDB does not answer."""
    async with _connected(settings) as (mongo, clock, states):
        state = await states.read()
        if state.is_complete:
            report("The past is indexed completely.")
        else:
            work = "rebuild" if state.is_full else "indexing of the past"
            by = "a process works on it" if state.is_owned else "no process works on it at this moment"
            report(f"The {work} is complete up to {_time(state.indexed_up_to_ms or 0)}: {by}.")
        cache = Cache(settings.redis_url, read_scripts, prefix=settings.redis_prefix)
        try:
            use_present_generation(mongo, cache)
            await cache.ping()
            count, age_ms = await UnindexedMessages(cache, cache.keys, clock).measure()
            report(f"Messages that wait: {count:,}, the oldest for {age_ms / 1000:.1f} s.")
        except Unreachable as error:
            report(f"How many messages wait is not known. {database_error(error)}")
        finally:
            await cache.close()


@contextmanager
def _progress(console: Console, first_id: int) -> Iterator[Report]:
    """Show the progress on a terminal: how much of the time of the messages is indexed."""
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("waiting for servers", total=1.0)

        def show(state: IndexState) -> None:
            if state.position is None:
                bar.update(task, completed=1.0)
            elif state.position:
                share = (state.position - first_id) / max(1, state.last_id - first_id)
                bar.update(task, completed=max(0.0, share), description=_time(created_at_ms(state.position)))

        yield show


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
