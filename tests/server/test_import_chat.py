"""Chat logs replayed into a group, against real servers."""

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
    """A database and a key prefix of this test's own, and what they hold, read past the server."""

    settings: Settings
    rows: Any
    keys: Redis

    async def run(
        self, path: Path, tell: Callable[[int], None] = lambda _: None, *, later: bool = False, **changed: Any
    ) -> ImportSummary:
        """An import in a server of its own."""
        chat = read_chat(path)
        settings = self.settings.model_copy(update=changed)
        async with open_services(settings, DaysLater() if later else None) as services:
            return await import_chat(services, chat, make_plan(chat), GROUP, tell)

    def texts(self) -> list[str]:
        """What was said, in order."""
        return [row["t"] for row in self.messages()]

    def messages(self) -> list[dict[str, Any]]:
        return list(self.rows["messages"].find({"k": {"$ne": "S"}}).sort("s", 1))

    def names(self) -> dict[str, str]:
        return {row["_id"]: row["n"] for row in self.rows["users"].find()}

    def members(self) -> set[str]:
        return {row["_id"].split(" ")[1] for row in self.rows["members"].find()}

    def forget_keys(self) -> None:
        """Redis loses the idempotency keys: a day went by."""
        self._delete("*:key:*")

    def forget_all(self) -> None:
        """Redis loses everything."""
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
    """What the sample became, for tests that only read."""

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
    """160 lines by 12 people, one of whom comes in with every 16th line; some go by another name for a while."""
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


def said(path: Path) -> list[str]:
    """The texts of a log, read without any of our code."""
    rows = map(json.loads, path.read_text().splitlines())
    return [row["text"] for row in rows if row["kind"] == "message" and row["text"].strip()]


# --- what an import makes


async def test_messages_are_those_of_the_file_in_its_order(imported: Imported) -> None:
    summary = imported.summary
    assert imported.texts() == said(SAMPLE)
    assert {row["c"] for row in imported.messages()} == {summary.group}
    assert summary.counts.messages == summary.messages == len(said(SAMPLE))
    assert (summary.counts.joins, summary.counts.renames, summary.plan.skipped) == (8, 6, 1)


async def test_everybody_is_called_by_their_last_nick(imported: Imported) -> None:
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


async def test_who_goes_by_several_nicks_is_one_sender(imported: Imported) -> None:
    senders = {row["t"]: row["u"] for row in imported.messages()}
    ned = senders["evening"]
    assert ned == senders["zzz"] == senders["|ned|: thief!"] == senders["good night"] == user_id_for("|ned|")
    assert ned != senders["that nick was free, so it is mine now"]
    assert senders["has anyone a spare mast? asking for a friend"] == senders["and now I am x[1], sorry about that"]
    assert senders["night!"] == "Mia" != senders["night :)"]
    assert senders["I am a person and no program, honestly"] != IMPORTER


async def test_mentions_are_of_whom_a_message_is_to(imported: Imported) -> None:
    mentions = {row["t"]: row.get("m", []) for row in imported.messages()}
    assert mentions["hi all, anybody awake?"] == []
    assert mentions["|ned|: good evening! How is the boat?"] == [user_id_for("|ned|")]
    assert mentions["|ned|: thief!"] == [user_id_for("|ned|", 2)]
    assert mentions["captain: when do we sail?"] == ["captain"]
    assert mentions["captain: carry on"] == [user_id_for("captain", 2)]
    assert mentions["nobody: hello?"] == []


async def test_the_importer_owns_the_group_and_invites_who_joins(imported: Imported) -> None:
    summary = imported.summary
    group = imported.rows["conversations"].find_one({"_id": summary.group})
    assert (group["name"], group["own"], group["mc"]) == (GROUP, IMPORTER, len(summary.plan.names) + 1)
    assert imported.members() == {IMPORTER, *summary.plan.names}
    told = list(imported.rows["messages"].find({"k": "S"}).sort("s", 1))
    assert [row["t"] for row in told][:3] == ["Import added |ned|", "Import added `tess", "Import added x[1]"]
    assert {row["u"] for row in told} == {IMPORTER}
    first_words = {row["u"]: row["s"] for row in reversed(imported.messages())}
    for row in told:
        (user,) = row["m"]
        assert row["s"] < first_words.get(user, 1 << 53)


async def test_texts_that_no_message_may_hold_are_cleaned(deployment: Deployment, tmp_path: Path) -> None:
    texts = ["nul \0 in the middle", "half \ud83d a pair", "x" * 5_000, "\0", "fine"]
    path = tmp_path / "odd.jsonl"
    rows = [{"kind": "message", "nick": f"n{i % 2}", "text": text} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = await deployment.run(path)
    assert deployment.texts() == ["nul  in the middle", "half \ufffd a pair", "x" * 3_999 + "…", "fine"]
    assert (summary.plan.skipped, summary.plan.cut) == (1, 1)


async def test_another_log_goes_on_in_the_same_group(deployment: Deployment, tmp_path: Path) -> None:
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
    assert deployment.texts() == said(SAMPLE) + said(path)
    assert deployment.members() == {IMPORTER, "neu", *first.plan.names}
    assert second.counts.joins == 0, "zoé is a member since the day before"
    assert deployment.names()[user_id_for("|ned|")] == "|ned|", "the log says so"


async def test_who_came_by_themselves_keeps_their_name(deployment: Deployment) -> None:
    async with open_services(deployment.settings) as services:
        for user, name in (("captain", "Cap Tain"), (IMPORTER, "My Importer")):
            await services.sign_in(Caller(UserId(user), CallerRole.USER, time.time() + 60, name=name))
    await deployment.run(SAMPLE)
    names = deployment.names()
    assert (names["captain"], names[IMPORTER], names["Mia"]) == ("Cap Tain", "My Importer", "Mia")


@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not at hand")
async def test_the_morning_of_a_real_day_is_all_there_in_order(deployment: Deployment, tmp_path: Path) -> None:
    lines = REAL.read_text().splitlines()[:200]
    path = tmp_path / REAL.name
    path.write_text("\n".join(lines))
    summary = await deployment.run(path)
    rows = list(map(json.loads, lines))
    assert deployment.texts() == said(path)
    assert len(summary.plan.names) > 25
    renamed = {nick for row in rows if row["kind"] == "rename" for nick in (row["nick"], row["to"])}
    names = deployment.names()
    shown = [names[row["u"]] for row in deployment.messages()]
    for row, name in zip((row for row in rows if row["kind"] == "message"), shown, strict=True):
        assert name == row["nick"] or row["nick"] in renamed


# --- once more


@pytest.mark.parametrize("loss", ["nothing", "keys", "everything"])
async def test_twice_gives_the_same(deployment: Deployment, loss: str) -> None:
    first = await deployment.run(SAMPLE)
    _lose(deployment, loss)
    before = list(deployment.rows["messages"].find())
    again = await deployment.run(SAMPLE, later=True)
    assert list(deployment.rows["messages"].find()) == before
    assert again.group == first.group
    assert again.counts.messages == again.counts.joins == again.counts.renames == 0


@pytest.mark.parametrize("loss", ["nothing", "keys", "everything"])
async def test_lines_past_the_mark_are_recognised(deployment: Deployment, loss: str) -> None:
    """As after a kill: all is stored, but word of it is not. However long ago that was."""
    await deployment.run(SAMPLE)
    before = list(deployment.rows["messages"].find())
    for done in (0, 20, 54):
        assert deployment.rows["imports"].update_one({"done": 55}, {"$set": {"done": done}}).modified_count == 1
        _lose(deployment, loss)
        again = await deployment.run(SAMPLE, later=loss != "nothing")
        assert list(deployment.rows["messages"].find()) == before
        assert again.counts.messages == 0
        assert deployment.names()[user_id_for("|ned|")] == "old_ned"


@pytest.mark.parametrize("loss", ["nothing", "keys", "everything"])
async def test_an_import_that_is_cancelled_again_and_again_goes_on_where_it_stopped(
    deployment: Deployment, long_log: Path, loss: str
) -> None:
    stopped: list[str] = []
    for at in (1, 50, 110):
        done = await _cancelled(deployment, long_log, at, later=stopped != [] and loss != "nothing")
        before, stopped = stopped, deployment.texts()
        assert stopped == said(long_log)[: len(stopped)]
        assert len(before) < len(stopped)
        assert at <= done < LONG
        assert deployment.rows["imports"].find_one({"done": done}) is not None
        _lose(deployment, loss)
    summary = await deployment.run(long_log, later=loss != "nothing")
    assert deployment.texts() == said(long_log)
    assert summary.counts.messages == len(said(long_log)) - len(stopped)


async def _cancelled(deployment: Deployment, log: Path, at: int, *, later: bool) -> int:
    """An import that is cancelled as soon as so many lines are done. How many were when it ended."""
    seen: list[int] = []

    def tell(done: int) -> None:
        seen.append(done)
        if done >= at and not under_way.cancelling():
            under_way.cancel()

    under_way = asyncio.create_task(deployment.run(log, tell, later=later))
    with pytest.raises(asyncio.CancelledError):
        await under_way
    return seen[-1]


async def test_a_group_that_is_full_stops_the_import_and_a_larger_one_lets_it_go_on(deployment: Deployment) -> None:
    with pytest.raises(GroupFull):
        await deployment.run(SAMPLE, max_group_members=9)
    # Six from the start and the importer; the third to come in, in line 8, is one too many.
    assert deployment.texts() == said(SAMPLE)[:5]
    await deployment.run(SAMPLE)
    assert deployment.texts() == said(SAMPLE)


async def test_two_imports_of_one_log_at_once_make_one(deployment: Deployment, long_log: Path) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(deployment.run(long_log)) for _ in range(2)]
    summaries = [task.result() for task in tasks]
    assert summaries[0].group == summaries[1].group
    assert deployment.texts() == said(long_log)
    assert sum(summary.counts.messages for summary in summaries) == len(said(long_log))
    assert deployment.rows["conversations"].count_documents({}) == 1


async def test_what_people_write_meanwhile_is_no_hindrance(deployment: Deployment, long_log: Path) -> None:
    await _cancelled(deployment, long_log, 60, later=False)
    async with open_services(deployment.settings) as services:
        group = deployment.rows["conversations"].find_one()["_id"]
        await send_message(services.app, UserId("ben"), NewMessage(None, group, "live", key="import or so"))
    await deployment.run(long_log)
    texts = deployment.texts()
    texts.remove("live")
    assert texts == said(long_log)


@pytest.fixture
def short_transactions(_mongo_janitor: MongoClient[dict[str, Any]]) -> Iterator[None]:
    """Rows that a dead process has locked are free again after a second or two, and not after the usual fifteen."""
    name = "transactionLifetimeLimitSeconds"
    usual = _mongo_janitor.admin.command({"getParameter": 1, name: 1})[name]
    _mongo_janitor.admin.command({"setParameter": 1, name: 1})
    yield
    _mongo_janitor.admin.command({"setParameter": 1, name: usual})


@pytest.mark.usefixtures("short_transactions")
@pytest.mark.parametrize(("stop", "code", "at"), [(signal.SIGKILL, -9, 60), (signal.SIGINT, 130, 60)])
async def test_a_killed_import_goes_on_where_it_stopped(
    deployment: Deployment, long_log: Path, stop: signal.Signals, code: int, at: int
) -> None:
    process = _start(deployment.settings, "import-chat", str(long_log), "--group", GROUP)
    while deployment.rows["messages"].count_documents({}) < at:
        assert process.poll() is None
        await asyncio.sleep(0.002)
    process.send_signal(stop)
    out, trouble = await asyncio.to_thread(process.communicate)
    assert process.returncode == code
    assert out == ""
    assert ("The same command goes on from there." in trouble) == (stop is signal.SIGINT)
    await deployment.run(long_log)
    assert deployment.texts() == said(long_log)
    assert deployment.rows["conversations"].count_documents({}) == 1


def _lose(deployment: Deployment, loss: str) -> None:
    {"nothing": lambda: None, "keys": deployment.forget_keys, "everything": deployment.forget_all}[loss]()


def _environment(settings: Settings) -> dict[str, str]:
    names = ("mongo_url", "mongo_database", "redis_url", "redis_prefix")
    return {f"CONFAB_{name.upper()}": getattr(settings, name) for name in names}


def _start(settings: Settings, *words: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", "from server.cli.commands import main; main()", *words]
    return subprocess.Popen(
        program, env=os.environ | _environment(settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
