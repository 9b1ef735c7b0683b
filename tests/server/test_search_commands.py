"""`confab search rebuild` and `confab search status` while a server runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from rich.console import Console

from server.cli.search.index import print_status, rebuild_index
from server.errors import CommandError
from server.services import Services, open_services
from server.settings import Settings
from store.base.ids import MessageId, UserId, private_id
from store.messages.message import Message, MessageKind
from store.search.search_index import SearchCriteria

TALK = private_id(UserId("anna"), UserId("bert"))
CONSOLE = Console(quiet=True)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a rebuild wait for no server, and read small pages."""
    monkeypatch.setattr("store.search.past_indexing.SETTLING_MS", 0)
    monkeypatch.setattr("store.search.past_indexing.PAGE", 10)
    monkeypatch.setattr("server.cli.search.index._POLL_SECONDS", 0.01)
    yield


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    """A server whose deployment has 35 messages that nobody has indexed."""
    async with open_services(settings, start_wait_seconds=120) as services:
        await services.housekeeper.close()
        store = services.app.store
        messages = [
            Message(MessageId(store.ids.next()), TALK, UserId("anna"), MessageKind.TEXT, f"zebra {seq}", seq, seq)
            for seq in range(1, 36)
        ]
        await store.mongo.insert_many("messages", [message.to_document() for message in messages])
        yield services


async def _found(services: Services) -> int:
    index = services.app.store.search_index
    assert index is not None
    wanted = SearchCriteria([TALK], ["zebra"], [], "", 0, None, 100)
    return len((await index.propose(wanted, 10.0)).found)


async def test_a_rebuild_indexes_all_messages_and_says_how_many(services: Services, settings: Settings) -> None:
    printed: list[str] = []
    await rebuild_index(settings, CONSOLE, printed.append)

    assert printed == ["The index is complete. This command indexed 35 messages."]
    assert await _found(services) == 35
    assert (await services.app.store.index_states.read()).is_complete


async def test_an_interrupted_rebuild_is_continued_where_it_stopped(
    services: Services, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()
    states = "store.search.index_states.IndexStates.advance"

    async def stop(*_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        from store.search.index_states import IndexStates

        advance, calls = IndexStates.advance, []

        async def advance_once(*args: object) -> None:
            calls.append(args)
            await (advance(*args) if len(calls) == 1 else stop())  # type: ignore[arg-type]

        patch.setattr(states, advance_once)
        interrupted = asyncio.create_task(rebuild_index(settings, CONSOLE, lambda _: None))
        await reached.wait()
        interrupted.cancel()
        await asyncio.gather(interrupted, return_exceptions=True)
    printed: list[str] = []
    await rebuild_index(settings, CONSOLE, printed.append)

    assert printed == ["The index is complete. This command indexed 25 messages."]
    assert await _found(services) == 35
    assert (await services.app.store.index_states.read()).rebuild == 1


async def test_two_rebuilds_at_once_are_one(services: Services, settings: Settings) -> None:
    printed: list[str] = []
    await asyncio.gather(*(rebuild_index(settings, CONSOLE, printed.append) for _ in range(2)))

    assert await _found(services) == 35
    assert len(printed) == 2
    assert (await services.app.store.index_states.read()).rebuild <= 2


async def test_the_status_names_what_waits_and_what_is_not_indexed(services: Services, settings: Settings) -> None:
    store = services.app.store
    message = Message(MessageId(1), TALK, UserId("anna"), MessageKind.TEXT, "text", 99)
    await store.cache.run(store.unindexed_messages.note_calls([message]))
    printed: list[str] = []
    await print_status(settings, printed.append)
    assert printed[0] == "The past is indexed completely."
    assert printed[1].startswith("Messages that wait: 1, the oldest for ")

    await store.index_states.begin_rebuild()
    printed.clear()
    await print_status(settings, printed.append)
    assert printed[0].startswith("The rebuild is complete up to 2025-01-01")
    assert "no process works on it" in printed[0]


async def test_a_database_without_a_deployment_is_refused(settings: Settings) -> None:
    with pytest.raises(CommandError, match="has no deployment"):
        await rebuild_index(settings, CONSOLE, print)
