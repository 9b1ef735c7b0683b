"""Reads chat logs: files with one JSON object per line, each a message, a join or a rename."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.errors import CommandError

_MAX_EXCERPT_LENGTH = 60


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A message, optionally addressed to a nick. Lines are numbered from 1."""

    line: int
    nick: str
    text: str
    to: str | None


@dataclass(frozen=True, slots=True)
class JoinLine:
    """A nick joined."""

    line: int
    nick: str


@dataclass(frozen=True, slots=True)
class RenameLine:
    """A nick changed to another one."""

    line: int
    nick: str
    to: str


ChatLine = MessageLine | JoinLine | RenameLine


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A log. `digest` identifies its content. `length` is the number of lines, including blank ones."""

    digest: str
    length: int
    lines: tuple[ChatLine, ...]


def read_chat(path: Path) -> ChatFile:
    """Read a chat log. Raises CommandError with the line number if a line is invalid.

    Texts and nicks are unchanged. Blank lines and unknown fields are ignored.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    rows = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = tuple(_parse_lines(path, rows))
    if not lines:
        raise CommandError(f"{path} is empty: it should have one JSON object per line.")
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return ChatFile(digest, lines[-1].line, lines)


def _parse_lines(path: Path, rows: list[bytes]) -> Iterator[ChatLine]:
    for number, row in enumerate(rows, start=1):
        if row.strip():
            try:
                yield _parse_line(number, row)
            except _InvalidLine as invalid:
                raise CommandError(f"Line {number} of {path} {invalid}; nothing was imported.") from invalid


class _InvalidLine(Exception):
    """Raised for an invalid line. The message continues a sentence that starts with the line number."""


def _parse_line(number: int, row: bytes) -> ChatLine:
    try:
        # orjson refuses escaped lone surrogates, which occur in real logs.
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
            raise _InvalidLine(f"has the unknown kind {_excerpt(kind)} (use message, join or rename)")


def _text(fields: dict[str, Any], name: str) -> str:
    if name not in fields:
        raise _InvalidLine(f"has no {name}")
    value = fields[name]
    if not isinstance(value, str):
        raise _InvalidLine(f"has a {name} that is not a text: {_excerpt(value)}")
    return value


def _nick(fields: dict[str, Any], name: str) -> str:
    nick = _text(fields, name)
    if not nick.strip():
        raise _InvalidLine(f"has a blank {name}")
    return nick


def _excerpt(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MAX_EXCERPT_LENGTH else f"{text[: _MAX_EXCERPT_LENGTH - 1]}…"
