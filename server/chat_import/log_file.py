"""A chat log as it lies on disk: one JSON object a line, each a message, a join or a rename."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.errors import CommandError

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class MessageLine:
    """Somebody wrote something, to somebody where the log says so. Lines are numbered from 1."""

    line: int
    nick: str
    text: str
    to: str | None


@dataclass(frozen=True, slots=True)
class JoinLine:
    """Somebody came in."""

    line: int
    nick: str


@dataclass(frozen=True, slots=True)
class RenameLine:
    """Somebody goes by another nick from now on."""

    line: int
    nick: str
    to: str


ChatLine = MessageLine | JoinLine | RenameLine


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A whole log. `digest` tells one content from another; `length` counts its lines, blank ones too."""

    digest: str
    length: int
    lines: tuple[ChatLine, ...]


def read_chat(path: Path) -> ChatFile:
    """A chat log, all of it. Raises CommandError, which names the line, if any of it is not understood.

    Texts and nicks are as in the file. Blank lines are passed over, and so are fields that mean nothing here.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    rows = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = tuple(_lines(path, rows))
    if not lines:
        raise CommandError(f"{path} holds no chat: it is empty.")
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return ChatFile(digest, lines[-1].line, lines)


def _lines(path: Path, rows: list[bytes]) -> Iterator[ChatLine]:
    for number, row in enumerate(rows, start=1):
        if row.strip():
            try:
                yield _line(number, row)
            except _InvalidLine as wrong:
                raise CommandError(f"Line {number} of {path} {wrong}; nothing was imported.") from wrong


class _InvalidLine(Exception):
    """What is wrong with a line, to be read after its number."""


def _line(number: int, row: bytes) -> ChatLine:
    try:
        # Not orjson: that refuses escaped lone surrogates, which real logs hold.
        fields = json.loads(row.decode())
    except UnicodeDecodeError as error:
        raise _InvalidLine("is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise _InvalidLine("is not JSON") from error
    if not isinstance(fields, dict):
        raise _InvalidLine("is not a JSON object")
    kind = fields.get("kind")
    match kind:
        case "message":
            to = _nick(fields, "to") if fields.get("to") is not None else None
            return MessageLine(number, _nick(fields, "nick"), _text(fields, "text"), to)
        case "join":
            return JoinLine(number, _nick(fields, "nick"))
        case "rename":
            return RenameLine(number, _nick(fields, "nick"), _nick(fields, "to"))
        case None:
            raise _InvalidLine("has no kind")
        case _:
            raise _InvalidLine(f"has the unknown kind {_shown(kind)} (known are message, join and rename)")


def _text(fields: dict[str, Any], name: str) -> str:
    if name not in fields:
        raise _InvalidLine(f"has no {name}")
    value = fields[name]
    if not isinstance(value, str):
        raise _InvalidLine(f"has a {name} that is no text: {_shown(value)}")
    return value


def _nick(fields: dict[str, Any], name: str) -> str:
    nick = _text(fields, name)
    if not nick.strip():
        raise _InvalidLine(f"has a blank {name}")
    return nick


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
