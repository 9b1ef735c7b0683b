"""A naive matcher, written from the contract: slow, and only for words of the vocabulary.

Where the contract leaves something open, the answer is MAY.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache


class Verdict(IntEnum):
    """Expected outcome for one text: a search must find it, may find it, or must not."""

    NO = 0
    MAY = 1
    MUST = 2


class Kind(Enum):
    """Kind of a part of a query: a word of a spaced script, part of an unspaced one, a phrase, and others."""

    WORD = "word"
    PART = "part"
    PHRASE = "phrase"
    EMOJI = "emoji"
    CODE = "code"


@dataclass(frozen=True)
class Clause:
    """One part of a query: its kind, its text, and whether it excludes."""

    kind: Kind
    text: str
    excludes: bool = False

    def __str__(self) -> str:
        text = f'"{self.text}"' if self.kind is Kind.PHRASE else self.text
        return f"-{text}" if self.excludes else text


@dataclass(frozen=True)
class Token:
    """A word, a run of an unspaced script, or an emoji, at a place of a text.

    is_clear: It is separated by something that surely separates words.
    """

    start: int
    end: int
    plain: str
    script: str
    is_clear: bool = True


_DIACRITICS = re.compile("[\u0300-\u036f\u064b-\u065f\u0670]")
_SCRIPTS = {
    "unspaced CJ": "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uff66-\uff9f",
    "unspaced Hangul": "\u1100-\u11ff\uac00-\ud7a3",
    "unspaced Thai": "\u0e00-\u0e7f",
    "emoji": "\u2764\U0001f300-\U0001faff",
    "Latin": "A-Za-z\u00c0-\u024f\uff21-\uff3a\uff41-\uff5a\u0300-\u036f0-9",
    "Greek": "\u0370-\u03ff",
    "Cyrillic": "\u0400-\u04ff",
    "Arabic": "\u0600-\u06ff",
    "Devanagari": "\u0900-\u097f",
}
_TOKEN = re.compile("|".join(f"(?P<s{n}>[{chars}]+)" for n, chars in enumerate(_SCRIPTS.values())))
_EMOJI_DETAILS = re.compile("[\ufe0f\u200d\U0001f3fb-\U0001f3ff]")
_CLEAR_AFTER = re.compile(r"$|[\s,!?)]")
_CLEAR_BEFORE = re.compile(r"[\s(]")


@cache
def plain(text: str) -> str:
    """Return a text without case, diacritics and compatibility forms."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _DIACRITICS.sub("", folded)).casefold()


@cache
def squeezed(text: str) -> str:
    """Return a text in which only letters, digits and their marks are left."""
    return "".join(char for char in plain(text) if unicodedata.category(char)[0] in "LMN")


@cache
def tokens_of(text: str) -> tuple[Token, ...]:
    """Return the words of a text, separated by all signs and where scripts meet."""
    found = []
    for match in _TOKEN.finditer(text):
        number = next(n for n in range(len(_SCRIPTS)) if match[f"s{n}"] is not None)
        script = list(_SCRIPTS)[number]
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        is_clear = _is_border(before, _CLEAR_BEFORE) and _is_border(after, _CLEAR_AFTER)
        if script != "emoji":
            found.append(Token(match.start(), match.end(), plain(match[0]), script, is_clear))
            continue
        found += [
            Token(match.start() + n, match.start() + n + 1, char, script)
            for n, char in enumerate(match[0])
            if not _EMOJI_DETAILS.match(char)
        ]
    return tuple(found)


def _is_border(char: str, clear: re.Pattern[str]) -> bool:
    return not char or bool(clear.match(char)) or bool(_TOKEN.match(char)) or bool(_EMOJI_DETAILS.match(char))


def judge(text: str, clauses: Sequence[Clause]) -> Verdict:
    """Return whether a query has to find a text."""
    verdict = Verdict.MUST
    unquoted = [n for n, each in enumerate(clauses) if not each.excludes and each.kind is not Kind.PHRASE]
    for number, clause in enumerate(clauses):
        exact, beginning = _judge(text, clause, is_last=False), _judge(text, clause, is_last=True)
        if number == len(clauses) - 1 and not clause.excludes:
            found = beginning
        elif number == len(clauses) - 1 or unquoted[-1:] == [number]:
            # Whether a beginning is enough if an exclusion or a phrase comes after it is open.
            found = exact if exact is beginning else max(exact, Verdict.MAY)
        else:
            found = exact
        verdict = min(verdict, Verdict(2 - found) if clause.excludes else found)
    return verdict


def _judge(text: str, clause: Clause, *, is_last: bool) -> Verdict:
    wanted = plain(clause.text)
    match clause.kind:
        case Kind.WORD:
            tokens = [
                token
                for token in tokens_of(text)
                if token.plain == wanted or (is_last and token.plain.startswith(wanted))
            ]
            if any(token.is_clear and not _cuts_a_letter(token.plain, wanted) for token in tokens):
                return Verdict.MUST
            return Verdict.MAY if tokens else Verdict.NO
        case Kind.PART:
            return _judge_part(text, wanted)
        case Kind.PHRASE:
            return _judge_phrase(text, clause.text)
        case Kind.EMOJI:
            base = _EMOJI_DETAILS.sub("", clause.text)
            return Verdict.MUST if base in text and "\u200d" not in text else Verdict(base in text)
        case Kind.CODE:
            place = rf"(^|\s){re.escape(wanted)}($|{'' if is_last else chr(92) + 's'})"
            if re.search(place, plain(text)):
                return Verdict.MUST
            return Verdict(squeezed(clause.text) in squeezed(text))


def _cuts_a_letter(word: str, beginning: str) -> bool:
    """Return whether a beginning ends between a letter and its mark."""
    return unicodedata.category(word[len(beginning) : len(beginning) + 1] or "x")[0] == "M"


def _judge_part(text: str, wanted: str) -> Verdict:
    if len({token.script for token in tokens_of(wanted)}) == 1 and len(wanted) > 1:
        for token in tokens_of(text):
            start = token.plain.find(wanted)
            if start >= 0 and not _cuts_a_letter(token.plain, token.plain[: start + len(wanted)]):
                return Verdict.MUST
    return Verdict(wanted in squeezed(text))


def _judge_phrase(text: str, phrase: str) -> Verdict:
    wanted, found = _atoms(phrase), _atoms(text)
    if not any(_is_part(wanted, atoms) for atoms in (found, [each for each in found if each[1] != "emoji"])):
        return Verdict.NO
    tokens = tokens_of(phrase)
    if len(tokens) == 1 and tokens[0].script.startswith("unspaced"):
        return _judge_part(text, plain(phrase))
    before, after = (
        "" if token.script.startswith(("unspaced", "emoji")) else border
        for token, border in ((tokens[0], r"(^|\s)"), (tokens[-1], r"($|\s)"))
    )
    is_clear = re.search(f"{before}{re.escape(plain(phrase))}{after}", plain(text)) is not None
    return Verdict.MUST if is_clear and all(token.is_clear for token in tokens) else Verdict.MAY


@cache
def _atoms(text: str) -> list[tuple[str, str]]:
    """Return the parts of a text in order: words, the characters of unspaced scripts, emoji."""
    return [
        (part, token.script)
        for token in tokens_of(text)
        for part in (token.plain if token.script.startswith("unspaced") else [token.plain])
    ]


def _is_part(wanted: Sequence[tuple[str, str]], atoms: Sequence[tuple[str, str]]) -> bool:
    return any(list(atoms[n : n + len(wanted)]) == list(wanted) for n in range(len(atoms) - len(wanted) + 1))


def occurrences(text: str, clauses: Sequence[Clause]) -> Iterator[tuple[int, int]]:
    """Yield where words, parts and emoji of a query surely occur. Of a beginning, its first character."""
    for clause in clauses:
        wanted = plain(clause.text)
        if clause.excludes:
            continue
        for token in tokens_of(text):
            is_word = clause.kind is Kind.WORD and token.plain == wanted and token.is_clear
            is_emoji = clause.kind is Kind.EMOJI and token.plain == _EMOJI_DETAILS.sub("", clause.text)
            if is_word or is_emoji:
                yield token.start, token.end
            elif clause.kind is Kind.PART and len(wanted) > 1:
                yield from _parts(text, token, wanted)


def _parts(text: str, token: Token, wanted: str) -> Iterator[tuple[int, int]]:
    """Yield the first place of a part within a token."""
    for start in range(token.start, token.end):
        for end in range(start + 1, token.end + 1):
            if plain(text[start:end]) == wanted and not _cuts_a_letter(text[start : token.end], text[start:end]):
                yield start, end
                return
