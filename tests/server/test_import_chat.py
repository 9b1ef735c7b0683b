"""Chat logs are imported into a group, against real databases."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis

from resolvers.users.callers import Caller, CallerRole
from server.chat_import.command import ImportSummary
from server.chat_import.plan import IMPORTER, user_id_for
from server.services import open_services
from server.settings import Settings
from store.base.ids import UserId
from tests.server.chat_imports import GROUP, SAMPLE, Deployment, expected_texts

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "ubuntu-irc" / "2004-12-25.jsonl"


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
