"""Chat imports that are repeated, cancelled, killed or run twice at once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis

from resolvers.base.errors import GroupFull
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from server.chat_import.plan import user_id_for
from server.services import open_services
from server.settings import Settings
from store.base.ids import UserId
from tests.server.chat_imports import GROUP, SAMPLE, Deployment, expected_texts

LONG = 110
LOSSES = [*(pytest.param(loss, marks=pytest.mark.long) for loss in ("nothing", "keys")), "everything"]
"""Losses of Redis between two imports."""


@pytest.fixture
def emptied_database(mongo_database_name: str) -> str:
    """A new one: processes that are killed leave transactions behind."""
    return mongo_database_name


@pytest.fixture
def deployment(settings: Settings) -> Iterator[Deployment]:
    with MongoClient[dict[str, Any]](settings.mongo_url) as mongo, Redis.from_url(settings.redis_url) as keys:
        yield Deployment(settings, mongo[settings.mongo_database], keys)


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """110 lines by 9 people. Every 16th line is a join, and some people change their nick for a while."""
    chance = random.Random(7)
    rows: list[dict[str, Any]] = []
    here = ["ann_", "ben", "cy"]
    for number in range(LONG):
        if number % 16 == 15:
            here.append(f"late{number}_")
            rows.append({"kind": "join", "nick": here[-1]})
        elif number % 52 == 51:
            rows.append({"kind": "rename", "nick": here[0], "to": here[0] + "x"})
            here[0] += "x"
        else:
            row = {"kind": "message", "nick": chance.choice(here), "text": f"line {number}"}
            rows.append(row | ({"to": chance.choice(here)} if number % 3 == 0 else {}))
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("loss", LOSSES)
async def test_second_import_changes_nothing(deployment: Deployment, loss: str) -> None:
    first = await deployment.run(SAMPLE)
    _delete_keys(deployment, loss)
    before = list(deployment.rows["messages"].find())
    again = await deployment.run(SAMPLE, later=True)
    assert list(deployment.rows["messages"].find()) == before
    assert again.group == first.group
    assert again.counts.messages == again.counts.joins == again.counts.renames == 0


@pytest.mark.parametrize("loss", LOSSES)
async def test_lines_after_the_saved_progress_are_not_repeated(deployment: Deployment, loss: str) -> None:
    """The saved progress is behind the stored messages, as after a kill, also days later."""
    await deployment.run(SAMPLE)
    before = list(deployment.rows["messages"].find())
    for done in (0, 20, 54):
        assert deployment.rows["imports"].update_one({"done": 55}, {"$set": {"done": done}}).modified_count == 1
        _delete_keys(deployment, loss)
        again = await deployment.run(SAMPLE, later=loss != "nothing")
        assert list(deployment.rows["messages"].find()) == before
        assert again.counts.messages == 0
        assert deployment.names()[user_id_for("|ned|")] == "old_ned"


@pytest.mark.parametrize("loss", LOSSES)
async def test_import_continues_after_several_cancellations(deployment: Deployment, long_log: Path, loss: str) -> None:
    stopped: list[str] = []
    for at in (1, 30, 60):
        done = await _cancelled(deployment, long_log, at, later=stopped != [] and loss != "nothing")
        before, stopped = stopped, deployment.texts()
        assert stopped == expected_texts(long_log)[: len(stopped)]
        assert len(before) < len(stopped)
        assert at <= done < LONG
        assert deployment.rows["imports"].find_one({"done": done}) is not None
        _delete_keys(deployment, loss)
    summary = await deployment.run(long_log, later=loss != "nothing")
    assert deployment.texts() == expected_texts(long_log)
    assert summary.counts.messages == len(expected_texts(long_log)) - len(stopped)


async def _cancelled(deployment: Deployment, log: Path, at: int, *, later: bool) -> int:
    """Cancel an import after `at` lines, and return how many were done at its end."""
    seen: list[int] = []

    def report(done: int) -> None:
        seen.append(done)
        if done >= at and not running.cancelling():
            running.cancel()

    running = asyncio.create_task(deployment.run(log, report, later=later))
    with pytest.raises(asyncio.CancelledError):
        await running
    return seen[-1]


async def test_import_continues_after_the_group_limit_is_raised(deployment: Deployment) -> None:
    with pytest.raises(GroupFull):
        await deployment.run(SAMPLE, max_group_members=9)
    # The group starts with six people and the importer. The third join, in line 8, exceeds the limit.
    assert deployment.texts() == expected_texts(SAMPLE)[:5]
    await deployment.run(SAMPLE)
    assert deployment.texts() == expected_texts(SAMPLE)


async def test_two_concurrent_imports_of_a_log_have_the_effect_of_one(deployment: Deployment, long_log: Path) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(deployment.run(long_log)) for _ in range(2)]
    summaries = [task.result() for task in tasks]
    assert summaries[0].group == summaries[1].group
    assert deployment.texts() == expected_texts(long_log)
    assert sum(summary.counts.messages for summary in summaries) == len(expected_texts(long_log))
    assert deployment.rows["conversations"].count_documents({}) == 1


async def test_import_continues_if_members_write_meanwhile(deployment: Deployment, long_log: Path) -> None:
    await _cancelled(deployment, long_log, 30, later=False)
    async with open_services(deployment.settings) as services:
        group = deployment.rows["conversations"].find_one()["_id"]
        await send_message(services.app, UserId("ben"), NewMessage(None, group, "live", key="import or so"))
    await deployment.run(long_log)
    texts = deployment.texts()
    texts.remove("live")
    assert texts == expected_texts(long_log)


@pytest.fixture
def short_transactions(_mongo_janitor: MongoClient[dict[str, Any]]) -> Iterator[None]:
    """Release rows that a dead process has locked after one or two seconds, instead of fifteen."""
    name = "transactionLifetimeLimitSeconds"
    usual = _mongo_janitor.admin.command({"getParameter": 1, name: 1})[name]
    _mongo_janitor.admin.command({"setParameter": 1, name: 1})
    yield
    _mongo_janitor.admin.command({"setParameter": 1, name: usual})


@pytest.mark.usefixtures("short_transactions")
@pytest.mark.parametrize(
    ("stop", "code"), [pytest.param(signal.SIGKILL, -9, marks=pytest.mark.long), (signal.SIGINT, 130)]
)
async def test_repeated_import_continues_after_a_kill(
    deployment: Deployment, long_log: Path, stop: signal.Signals, code: int
) -> None:
    process = _start_pausing_import(deployment.settings, long_log, pause_line=60)
    while deployment.rows["messages"].count_documents({}) < 30:
        assert process.poll() is None
        await asyncio.sleep(0.01)
    process.send_signal(stop)
    out, errors = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == code
    assert out == ""
    assert ("Repeat the command to continue." in errors) == (stop is signal.SIGINT)
    await deployment.run(long_log)
    assert deployment.texts() == expected_texts(long_log)
    assert deployment.rows["conversations"].count_documents({}) == 1


def _delete_keys(deployment: Deployment, loss: str) -> None:
    {"nothing": lambda: None, "keys": deployment.forget_keys, "everything": deployment.forget_all}[loss]()


def _environment(settings: Settings) -> dict[str, str]:
    names = ("mongo_url", "mongo_database", "redis_url", "redis_prefix")
    return {f"CONFAB_{name.upper()}": getattr(settings, name) for name in names}


PAUSING_IMPORT = """
import asyncio
import signal

from server.chat_import.runner import ImportRunner
from server.cli.commands import main

start_step = ImportRunner._start


async def start_or_pause(runner, step):
    if step.line >= {pause_line}:
        await asyncio.Event().wait()
    await start_step(runner, step)


ImportRunner._start = start_or_pause
# A shell without job control starts background processes with SIGINT ignored, which children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
"""The command line, with imports that stop at a line until they are cancelled."""


def _start_pausing_import(settings: Settings, log: Path, pause_line: int) -> subprocess.Popen[str]:
    """Start an import that cannot end before it gets a signal."""
    program = PAUSING_IMPORT.format(pause_line=pause_line)
    return subprocess.Popen(
        [sys.executable, "-c", program, "import-chat", str(log), "--group", GROUP],
        env=os.environ | _environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
