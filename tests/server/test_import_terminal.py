"""Terminal output of `confab import-chat`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pymongo import MongoClient

from resolvers.base.errors import ConfabError
from server.chat_import.command import run_import
from server.cli.commands import main
from server.errors import CommandError
from server.settings import Settings

SAMPLE = Path(__file__).parents[1] / "data" / "irc-sample.jsonl"
GROUP = "#sailing [test]"


@pytest.fixture
def emptied_database(mongo_database_name: str) -> str:
    """A new one, without collections."""
    return mongo_database_name


def is_untouched(settings: Settings) -> bool:
    """Return whether the import stored nothing."""
    with MongoClient[dict[str, object]](settings.mongo_url) as mongo:
        return mongo[settings.mongo_database].list_collection_names() == []


async def test_summary_shows_what_was_imported(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    summary = await run_import(settings, SAMPLE, GROUP)
    out, errors = capsys.readouterr()
    rows = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert rows["group"] == f"{GROUP} ({summary.group})"
    assert rows["messages"].startswith("38, ")
    assert rows["messages"].endswith(" per second")
    assert (rows["people"], rows["joins"], rows["renames"]) == ("14, 6 of them from the start", "8", "6")
    assert rows["skipped"] == "1 without text"
    assert errors == "", "no progress bar without a terminal"

    await run_import(settings, SAMPLE, GROUP)
    out, _ = capsys.readouterr()
    assert out == f"Nothing to do: all of {SAMPLE} is already in {GROUP} ({summary.group}).\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "is not a readable file"),
        ("", "is empty"),
        ('{"kind": "join", "nick": "a"}\nPK\x03', "Line 2 of "),
        ('{"kind": "join", "nick": "a"}\n{"kind": "part", "nick": "a"}', 'has the unknown kind "part"'),
        ('{"kind": "message", "nick": "a", "text": "alone"}', "The chat has only 1 person"),
    ],
)
def test_invalid_file_ends_with_code_2_and_stores_nothing(
    settings: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    complaint: str,
) -> None:
    path = tmp_path / "bad.jsonl"
    if content is not None:
        path.write_text(content)
    assert _command(settings, monkeypatch, "import-chat", str(path), "--group", GROUP) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert complaint in errors
    assert errors.count("\n") == 1
    assert is_untouched(settings)


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\nb"])
async def test_invalid_group_name_is_refused(settings: Settings, name: str) -> None:
    with pytest.raises(ConfabError, match="--group must have 1 to 100 characters"):
        await run_import(settings, SAMPLE, name)
    assert is_untouched(settings)


async def test_import_reports_that_a_database_does_not_answer(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.chat_import.command.START_WAIT_SECONDS", 0.1)
    nowhere = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    with pytest.raises(CommandError, match=r"CONFAB_REDIS_URL failed: "):
        await run_import(nowhere, SAMPLE, GROUP)
    assert "Stopped after 0 of 55 lines. Repeat the command to continue." in capsys.readouterr().err


def _command(settings: Settings, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    for name in ("mongo_url", "mongo_database", "redis_url", "redis_prefix"):
        monkeypatch.setenv(f"CONFAB_{name.upper()}", getattr(settings, name))
    monkeypatch.setattr(sys, "argv", ["confab", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code
