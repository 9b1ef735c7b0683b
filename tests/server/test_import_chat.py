"""Chat logs are imported into a group, against real databases."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis

from resolvers.base.errors import GroupFull
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from server.chat_import.command import ImportSummary, import_chat
from server.chat_import.log_file import read_chat
from server.chat_import.plan import IMPORTER, make_plan, user_id_for
from server.services import open_services
from server.settings import Settings
from store.base.clock import SystemClock
from store.base.ids import UserId

SAMPLE = Path(__file__).parents[1] / "data" / "irc-sample.jsonl"
REAL = Path(__file__).parents[2].parent / "shared" / "data" / "ubuntu-irc" / "2004-12-25.jsonl"
GROUP = "#sailing [test]"
LONG = 160


class DaysLater(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() + 3 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Deployment:
    """A database and a key prefix for one test, and direct access to them."""

    settings: Settings
    rows: Any
    keys: Redis

    async def run(
        self, path: Path, report: Callable[[int], None] = lambda _: None, *, later: bool = False, **changed: Any
    ) -> ImportSummary:
        """Run an import with its own services."""
        chat = read_chat(path)
        settings = self.settings.model_copy(update=changed)
        async with open_services(settings, DaysLater() if later else None) as services:
            return await import_chat(services, chat, make_plan(chat), GROUP, report)

    def texts(self) -> list[str]:
        """Return the texts of all messages in order."""
        return [row["t"] for row in self.messages()]

    def messages(self) -> list[dict[str, Any]]:
        return list(self.rows["messages"].find({"k": {"$ne": "S"}}).sort("s", 1))

    def names(self) -> dict[str, str]:
        return {row["_id"]: row["n"] for row in self.rows["users"].find()}

    def members(self) -> set[str]:
        return {row["_id"].split(" ")[1] for row in self.rows["members"].find()}

    def forget_keys(self) -> None:
        """Delete the idempotency keys, as after a day."""
        self._delete("*:key:*")

    def forget_all(self) -> None:
        """Delete all keys of the deployment in Redis."""
        self._delete("*")

    def _delete(self, pattern: str) -> None:
        found = list(self.keys.scan_iter(match=self.settings.redis_prefix + pattern, count=1000))
        if found:
            self.keys.delete(*found)


@pytest.fixture
def deployment(settings: Settings) -> Iterator[Deployment]:
    with MongoClient[dict[str, Any]](settings.mongo_url) as mongo, Redis.from_url(settings.redis_url) as keys:
        yield Deployment(settings, mongo[settings.mongo_database], keys)


@dataclass(frozen=True)
class Imported(Deployment):
    """The imported sample, for tests that only read."""

    summary: ImportSummary


@pytest.fixture(scope="module")
async def imported(
    module_settings: Settings, _mongo_janitor: MongoClient[dict[str, Any]], _redis_janitor: Redis
) -> Imported:
    deployment = Deployment(module_settings, _mongo_janitor[module_settings.mongo_database], _redis_janitor)
    summary = await deployment.run(SAMPLE)
    return Imported(module_settings, deployment.rows, deployment.keys, summary)


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """160 lines by 12 people. Every 16th line is a join, and some people change their nick for a while."""
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


def expected_texts(path: Path) -> list[str]:
    """Return the texts of a log, read without product code."""
    rows = map(json.loads, path.read_text().splitlines())
    return [row["text"] for row in rows if row["kind"] == "message" and row["text"].strip()]


# Results of an import


async def test_messages_have_the_order_of_the_file(imported: Imported) -> None:
    summary = imported.summary
    assert imported.texts() == expected_texts(SAMPLE)
    assert {row["c"] for row in imported.messages()} == {summary.group}
    assert summary.counts.messages == summary.messages == len(expected_texts(SAMPLE))
    assert (summary.counts.joins, summary.counts.renames, summary.plan.skipped) == (8, 6, 1)


async def test_users_have_their_last_nick_as_name(imported: Imported) -> None:
    assert Counter(imported.names().values()) == Counter(
        [
            "mia_",
            "Mia",
            "old_ned",
            "x[1]",
            "x[1]",
            "|ned|",
            "zoé",
            "importer",
            "\\o/",
            "late.comer",
            "123",
            "captain",
            "Captain",
            "--_--",
            "Import",
        ]
    )


async def test_person_with_several_nicks_is_one_sender(imported: Imported) -> None:
    senders = {row["t"]: row["u"] for row in imported.messages()}
    ned = senders["evening"]
    assert ned == senders["zzz"] == senders["|ned|: thief!"] == senders["good night"] == user_id_for("|ned|")
    assert ned != senders["that nick was free, so it is mine now"]
    assert senders["has anyone a spare mast? asking for a friend"] == senders["and now I am x[1], sorry about that"]
    assert senders["night!"] == "Mia" != senders["night :)"]
    assert senders["I am a person and no program, honestly"] != IMPORTER


async def test_addressed_people_are_mentioned(imported: Imported) -> None:
    mentions = {row["t"]: row.get("m", []) for row in imported.messages()}
    assert mentions["hi all, anybody awake?"] == []
    assert mentions["|ned|: good evening! How is the boat?"] == [user_id_for("|ned|")]
    assert mentions["|ned|: thief!"] == [user_id_for("|ned|", 2)]
    assert mentions["captain: when do we sail?"] == ["captain"]
    assert mentions["captain: carry on"] == [user_id_for("captain", 2)]
    assert mentions["nobody: hello?"] == []


async def test_importer_owns_the_group_and_invites_joiners(imported: Imported) -> None:
    summary = imported.summary
    group = imported.rows["conversations"].find_one({"_id": summary.group})
    assert (group["name"], group["own"], group["mc"]) == (GROUP, IMPORTER, len(summary.plan.names) + 1)
    assert imported.members() == {IMPORTER, *summary.plan.names}
    system_messages = list(imported.rows["messages"].find({"k": "S"}).sort("s", 1))
    assert [row["t"] for row in system_messages][:3] == [
        "Import added |ned|",
        "Import added `tess",
        "Import added x[1]",
    ]
    assert {row["u"] for row in system_messages} == {IMPORTER}
    first_words = {row["u"]: row["s"] for row in reversed(imported.messages())}
    for row in system_messages:
        (user,) = row["m"]
        assert row["s"] < first_words.get(user, 1 << 53)


async def test_invalid_texts_are_cleaned(deployment: Deployment, tmp_path: Path) -> None:
    texts = ["nul \0 in the middle", "half \ud83d a pair", "x" * 5_000, "\0", "fine"]
    path = tmp_path / "odd.jsonl"
    rows = [{"kind": "message", "nick": f"n{i % 2}", "text": text} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = await deployment.run(path)
    assert deployment.texts() == ["nul  in the middle", "half \ufffd a pair", "x" * 3_999 + "…", "fine"]
    assert (summary.plan.skipped, summary.plan.cut) == (1, 1)


async def test_second_log_continues_in_the_same_group(deployment: Deployment, tmp_path: Path) -> None:
    first = await deployment.run(SAMPLE)
    path = tmp_path / "next-day.jsonl"
    path.write_text(
        '{"kind": "message", "nick": "mia_", "text": "morning", "to": "neu"}\n'
        '{"kind": "message", "nick": "neu", "text": "morning!"}\n'
        '{"kind": "message", "nick": "|ned|", "text": "me too"}\n'
        '{"kind": "join", "nick": "zoé"}\n'
    )
    second = await deployment.run(path)
    assert second.group == first.group
    assert deployment.texts() == expected_texts(SAMPLE) + expected_texts(path)
    assert deployment.members() == {IMPORTER, "neu", *first.plan.names}
    assert second.counts.joins == 0, "zoé is a member since the first log"
    assert deployment.names()[user_id_for("|ned|")] == "|ned|", "the second log has this nick"


async def test_existing_users_keep_their_names(deployment: Deployment) -> None:
    async with open_services(deployment.settings) as services:
        for user, name in (("captain", "Cap Tain"), (IMPORTER, "My Importer")):
            await services.sign_in(Caller(UserId(user), CallerRole.USER, time.time() + 60, name=name))
    await deployment.run(SAMPLE)
    names = deployment.names()
    assert (names["captain"], names[IMPORTER], names["Mia"]) == ("Cap Tain", "My Importer", "Mia")


@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not at hand")
async def test_real_chat_log_is_imported_completely_in_order(deployment: Deployment, tmp_path: Path) -> None:
    lines = REAL.read_text().splitlines()[:200]
    path = tmp_path / REAL.name
    path.write_text("\n".join(lines))
    summary = await deployment.run(path)
    rows = list(map(json.loads, lines))
    assert deployment.texts() == expected_texts(path)
    assert len(summary.plan.names) > 25
    renamed = {nick for row in rows if row["kind"] == "rename" for nick in (row["nick"], row["to"])}
    names = deployment.names()
    displayed_names = [names[row["u"]] for row in deployment.messages()]
    for row, name in zip((row for row in rows if row["kind"] == "message"), displayed_names, strict=True):
        assert name == row["nick"] or row["nick"] in renamed


# Repeated imports


@pytest.mark.parametrize("loss", ["nothing", "keys", "everything"])
async def test_second_import_changes_nothing(deployment: Deployment, loss: str) -> None:
    first = await deployment.run(SAMPLE)
    _delete_keys(deployment, loss)
    before = list(deployment.rows["messages"].find())
    again = await deployment.run(SAMPLE, later=True)
    assert list(deployment.rows["messages"].find()) == before
    assert again.group == first.group
    assert again.counts.messages == again.counts.joins == again.counts.renames == 0


@pytest.mark.parametrize("loss", ["nothing", "keys", "everything"])
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


@pytest.mark.parametrize("loss", ["nothing", "keys", "everything"])
async def test_import_continues_after_several_cancellations(deployment: Deployment, long_log: Path, loss: str) -> None:
    stopped: list[str] = []
    for at in (1, 50, 110):
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
    await _cancelled(deployment, long_log, 60, later=False)
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
@pytest.mark.parametrize(("stop", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
async def test_repeated_import_continues_after_a_kill(
    deployment: Deployment, long_log: Path, stop: signal.Signals, code: int
) -> None:
    process = _start_pausing_import(deployment.settings, long_log, pause_line=120)
    while deployment.rows["messages"].count_documents({}) < 60:
        assert process.poll() is None
        await asyncio.sleep(0.01)
    process.send_signal(stop)
    out, errors = await asyncio.to_thread(process.communicate)
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

from server.chat_import.runner import ImportRunner
from server.cli.commands import main

start_step = ImportRunner._start


async def start_or_pause(runner, step):
    if step.line >= {pause_line}:
        await asyncio.Event().wait()
    await start_step(runner, step)


ImportRunner._start = start_or_pause
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
