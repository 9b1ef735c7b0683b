"""Reading chat logs, and the errors about invalid lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.chat_import.log_file import JoinLine, MessageLine, RenameLine, read_chat
from server.errors import CommandError

GOOD = '{"minute": 1, "kind": "message", "nick": "a", "text": "hi"}\n'


def test_lines_are_read_in_order_with_their_numbers(tmp_path: Path) -> None:
    chat = read_chat(
        _written(
            tmp_path,
            '{"minute": 1, "kind": "join", "nick": "a|b"}\n'
            '{"minute": 1, "kind": "message", "nick": "a|b", "text": "hi", "to": "c"}\n'
            '{"minute": 2, "kind": "message", "nick": "c", "text": "hello"}\n'
            '{"minute": 2, "kind": "rename", "nick": "a|b", "to": "a"}',
        )
    )
    assert chat.lines == (
        JoinLine(1, "a|b"),
        MessageLine(2, "a|b", "hi", "c"),
        MessageLine(3, "c", "hello", None),
        RenameLine(4, "a|b", "a"),
    )
    assert chat.length == 4


def test_blank_lines_windows_line_ends_and_bom_are_ignored(tmp_path: Path) -> None:
    chat = read_chat(_written(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n\r\n").encode() + GOOD.encode()))
    assert [line.line for line in chat.lines] == [1, 3]


def test_texts_and_nicks_are_unchanged(tmp_path: Path) -> None:
    chat = read_chat(_written(tmp_path, r'{"kind": "message", "nick": "zcat[1] ", "text": "a\u0000b \ud83d c\u2028d"}'))
    assert chat.lines == (MessageLine(1, "zcat[1] ", "a\0b \ud83d c\u2028d", None),)


def test_digest_depends_on_the_content_only(tmp_path: Path) -> None:
    one = read_chat(_written(tmp_path, GOOD, "one"))
    same = read_chat(_written(tmp_path, GOOD, "two"))
    other = read_chat(_written(tmp_path, GOOD.replace("hi", "ho"), "three"))
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("hello", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"kind": "message", "nick": "a", "text": "hi"', "is not JSON"),
        (b'{"kind": "message", "nick": "a", "text": "\xff"}', "is not UTF-8 text"),
        ("[]", "is not a JSON object"),
        ("null", "is not a JSON object"),
        ("{}", "has no kind"),
        ('{"kind": "quit", "nick": "a"}', 'has the unknown kind "quit" (use message, join or rename)'),
        ('{"kind": 7, "nick": "a"}', "has the unknown kind 7"),
        ('{"kind": "message", "text": "hi"}', "has no nick"),
        ('{"kind": "message", "nick": "a"}', "has no text"),
        ('{"kind": "message", "nick": "a", "text": 5}', "has a text that is not a text: 5"),
        ('{"kind": "message", "nick": "a", "text": "hi", "to": ["b"]}', 'has a to that is not a text: ["b"]'),
        ('{"kind": "message", "nick": " ", "text": "hi"}', "has a blank nick"),
        ('{"kind": "join", "nick": ""}', "has a blank nick"),
        ('{"kind": "join"}', "has no nick"),
        ('{"kind": "rename", "nick": "a"}', "has no to"),
        ('{"kind": "rename", "nick": "a", "to": ""}', "has a blank to"),
    ],
)
def test_error_names_the_invalid_line(tmp_path: Path, line: str | bytes, complaint: str) -> None:
    wrong = line.encode() if isinstance(line, str) else line
    path = _written(tmp_path, GOOD.encode() + b"\n" + wrong + b"\n" + GOOD.encode())
    with pytest.raises(CommandError) as caught:
        read_chat(path)
    assert str(caught.value).startswith(f"Line 3 of {path} {complaint}")
    assert str(caught.value).endswith("; nothing was imported.")


def test_long_invalid_value_is_shortened_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        read_chat(_written(tmp_path, f'{{"kind": "{"x" * 10_000}"}}'))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("content", ["", "\n\n \n"])
def test_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    path = _written(tmp_path, content)
    with pytest.raises(CommandError, match=r"is empty: it should have one JSON object per line\.$"):
        read_chat(path)


def test_unreadable_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"missing.jsonl cannot be read: No such file or directory\.$"):
        read_chat(tmp_path / "missing.jsonl")
    with pytest.raises(CommandError, match=r"cannot be read: Is a directory\.$"):
        read_chat(tmp_path)


def _written(folder: Path, content: str | bytes, name: str = "log") -> Path:
    path = folder / f"{name}.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
