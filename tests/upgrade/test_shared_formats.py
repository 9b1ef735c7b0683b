"""Each change of a form that servers share has a note with the reason why old and new servers work together."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from store.deployment.shared_formats import SHARED_FORMAT
from tests.upgrade import shared_forms
from tests.upgrade.shared_forms import list_forms, read_file, renew, without_comments

HELP = """
A form that servers share while they run has changed (lines with - and + below): servers of the last release and of this
version read each other's data during an upgrade. Decide whether they still work together (the table in ADR 104), and
raise SHARED_FORMAT if older servers would do something wrong. Then write down what changed and why it works, and run
the upgrade test:

    python -m tests.upgrade.shared_forms "WHAT CHANGED, AND WHY OLD AND NEW SERVERS WORK TOGETHER"
    python -m pytest tests/upgrade
"""


def test_a_changed_form_is_written_down() -> None:
    _, known = read_file()
    difference = list(difflib.unified_diff(known, list_forms(), lineterm="", n=0))
    changed = [line for line in difference[2:] if not line.startswith("@")]
    assert not changed, HELP + "\n".join(changed[:40])


def test_the_newest_note_is_about_the_shared_format() -> None:
    notes, _ = read_file()
    numbers = [int(line.partition(" ")[0]) for line in notes.splitlines() if line and not line.startswith("#")]
    assert numbers[0] == SHARED_FORMAT
    assert numbers == sorted(numbers, reverse=True)


def test_comments_and_white_space_of_scripts_do_not_count() -> None:
    script = "local a = '-- no comment' -- one\n--[[ many\nlines ]]\n\n  return a\n"
    assert without_comments(script) == "local a = '-- no comment' return a"
    assert without_comments("return  1") == without_comments("-- says why\nreturn\n1\n")


KINDS = ("script", "literal", "key", "session", "event", "values", "field", "writer", "frame", "question")


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_forms_of_every_kind(kind: str) -> None:
    assert any(line.startswith(f"{kind} ") for line in list_forms())


def test_one_command_writes_the_note_and_the_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "shared_formats.txt"
    text = shared_forms.FILE.read_text()
    copy.write_text(text.replace("key epoch", "key era"))
    monkeypatch.setattr(shared_forms, "FILE", copy)
    assert read_file()[1] != list_forms()
    renew("The epoch has its name again.")
    notes, forms = read_file()
    assert forms == list_forms()
    assert notes.splitlines()[3] == f"{SHARED_FORMAT} The epoch has its name again."
    assert copy.read_text().replace(f"{SHARED_FORMAT} The epoch has its name again.\n", "") == text
