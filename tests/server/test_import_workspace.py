"""Chat logs are imported into the channels of a workspace, against real databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from server.chat_import.plan import IMPORTER
from server.chat_import.workspace import WorkspaceImport, import_workspace, read_channel_logs
from server.errors import CommandError
from server.services import open_services
from server.settings import Settings
from tests.server.chat_imports import SAMPLE, expected_texts

NAME = "Sailors"


@pytest.fixture
def rows(settings: Settings) -> Iterator[Any]:
    with MongoClient[dict[str, Any]](settings.mongo_url) as mongo:
        yield mongo[settings.mongo_database]


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Two days: the sample, and one with some of the same people."""
    first, second = tmp_path / "2004-12-25.jsonl", tmp_path / "2004-12-26.jsonl"
    first.write_bytes(SAMPLE.read_bytes())
    lines = [{"kind": "message", "nick": nick, "text": f"hello from {nick}"} for nick in ("Mia", "pia", "Mia", "ole")]
    second.write_text("\n".join(json.dumps(line) for line in lines))
    return [first, second]


async def run(settings: Settings, paths: list[Path], stop_after: int | None = None) -> WorkspaceImport:
    async with open_services(settings) as services:

        def report(done: int) -> None:
            if stop_after is not None and done >= stop_after:
                raise CommandError("stopped")

        return await import_workspace(services, read_channel_logs(paths), NAME, report)


def texts(rows: Any, channel: str) -> list[str]:
    return [row["t"] for row in rows["messages"].find({"c": channel, "k": {"$ne": "S"}}).sort("s", 1)]


def check(rows: Any, result: WorkspaceImport, logs: list[Path]) -> None:
    """Fail unless everything was imported once."""
    for path, channel in zip(logs, result.channels, strict=True):
        assert texts(rows, channel) == expected_texts(path)
        assert rows["channels"].find_one({"_id": f"{result.workspace} {channel}"})["name"] == path.stem
    (workspace,) = rows["workspaces"].find()
    members = {row["_id"].partition(" ")[2] for row in rows["workspace_members"].find()}
    senders = {row["u"] for row in rows["messages"].find()}
    assert senders <= members and IMPORTER in members
    assert (workspace["_id"], workspace["own"], workspace["mc"]) == (result.workspace, IMPORTER, len(members))
    assert rows["channels"].count_documents({}) == len(logs)
    for channel in result.channels:
        writers = {row["u"] for row in rows["messages"].find({"c": channel, "k": {"$ne": "S"}})}
        assert followers(rows, channel) == writers | {IMPORTER}
        assert rows["channels"].find_one({"_id": f"{result.workspace} {channel}"})["mc"] == len(writers) + 1
        head = rows["conversations"].find_one({"_id": channel})
        sessions = rows["sessions"].find({"_id": {"$in": [f"{user} {channel}" for user in writers]}})
        assert [(row["fw"], row["r"]) for row in sessions] == [(1, head["s"])] * len(writers)


def followers(rows: Any, channel: str) -> set[str]:
    return {row["_id"].partition(" ")[2] for row in rows["members"].find({"_id": {"$regex": f"^{channel} "}})}


async def test_each_log_becomes_a_channel_of_one_workspace(settings: Settings, rows: Any, logs: list[Path]) -> None:
    result = await run(settings, logs)
    check(rows, result, logs)
    assert result.messages == sum(len(expected_texts(path)) for path in logs)
    again = await run(settings, logs)
    assert (again.workspace, again.channels, again.messages) == (result.workspace, result.channels, 0)
    check(rows, result, logs)


async def test_an_import_continues_after_it_was_stopped(settings: Settings, rows: Any, logs: list[Path]) -> None:
    for stop_after in (1, 9):
        with pytest.raises(CommandError):
            await run(settings, logs, stop_after)
    check(rows, await run(settings, logs), logs)


async def test_further_days_become_further_channels(settings: Settings, rows: Any, logs: list[Path]) -> None:
    await run(settings, logs[:1])
    check(rows, await run(settings, logs), logs)


def test_two_logs_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "day.jsonl" for folder in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(SAMPLE.read_bytes())
    with pytest.raises(CommandError, match="Two files are named day"):
        read_channel_logs(paths)
