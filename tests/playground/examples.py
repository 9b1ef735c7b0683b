"""The example operations of the playground, and how their variables are filled, as `web/playground/src` does it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[2] / "web" / "playground" / "src"

ON_SOCKET = frozenset({"joinVoice", "updateVoice", "leaveVoice", "reportActivity", "renewAuth"})
"""Mutations that need a WebSocket."""

_OPERATION = re.compile(r"^(query|mutation|subscription) (\w+)", re.MULTILINE)
_NOTE = re.compile(r"^# (As|For|Bytes|Where|Variables|Headers|Needs): (.*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """An operation of a file, with the notes in its comment. A value is one whose answer others use."""

    area: str
    text: str
    notes: dict[str, str] = field(hash=False)

    @property
    def kind(self) -> str:
        """query, mutation or subscription."""
        return _operation(self.text)[1]

    @property
    def name(self) -> str:
        """The name of the operation."""
        return _operation(self.text)[2]

    @property
    def title(self) -> str:
        """The first line of the comment."""
        return self.text.splitlines()[0].removeprefix("# ")

    @property
    def is_on_socket(self) -> bool:
        """True if the operation needs a WebSocket."""
        return self.kind == "subscription" or bool(ON_SOCKET & set(re.findall(r"\w+", self.text)))

    def given(self, note: str) -> dict[str, Any]:
        """Return the JSON object of a note; empty without the note."""
        found = json.loads(self.notes.get(note, "{}"))
        assert isinstance(found, dict)
        return found

    @property
    def needed(self) -> set[str]:
        """The names of the values that the notes use."""
        return set(re.findall(r"\{(\w+)\}", " ".join(self.notes.values()))) | set(self.notes.get("Needs", "").split())


@cache
def examples() -> tuple[Example, ...]:
    """Return all examples in the order of the list."""
    found: list[Example] = []
    for path in sorted((SOURCES / "examples").glob("*.graphql")):
        heading, *blocks = _blocks(path)
        assert re.fullmatch(r"# .+", heading), path
        found += [_parse(heading.removeprefix("# "), block) for block in blocks]
    return tuple(found)


@cache
def values() -> dict[str, Example]:
    """Return the operations whose answers fill variables, by name."""
    _heading, *blocks = _blocks(SOURCES / "values.graphql")
    parsed = [_parse("values", block) for block in blocks]
    return {value.name: value for value in parsed}


def value_in(answer: Any, where: dict[str, Any]) -> Any:
    """Return the field `value` of the first object that has it and the fields of `where`; None if there is none."""
    if isinstance(answer, dict):
        if answer.get("value") is not None and where.items() <= answer.items():
            return answer["value"]
        answer = list(answer.values())
    if isinstance(answer, list):
        return next((found for item in answer if (found := value_in(item, where)) is not None), None)
    return None


def _blocks(path: Path) -> list[str]:
    return re.split(r"\n{2,}", path.read_text(encoding="utf-8").strip())


def _parse(area: str, block: str) -> Example:
    return Example(area, _NOTE.sub("", block + "\n"), {note[1]: note[2] for note in _NOTE.finditer(block + "\n")})


def _operation(text: str) -> re.Match[str]:
    found = _OPERATION.search(text)
    assert found, text
    return found
