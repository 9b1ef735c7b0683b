"""Random queries for words of the vocabulary, and their filters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.api.client import Json
from tests.invariants.search.naive_matcher import Clause, Kind, Token, plain, tokens_of
from tests.invariants.search.vocabulary import CODE, EMOJI, spaced_word, spell, unspaced_run


@dataclass(frozen=True)
class Query:
    """A query as its clauses, with its filter."""

    clauses: tuple[Clause, ...]
    filter: Json = field(default_factory=dict)

    @property
    def text(self) -> str:
        return " ".join(str(clause) for clause in self.clauses)


def random_clauses(random: Random, texts: Sequence[str]) -> tuple[Clause, ...]:
    """Return one to three clauses, and at times exclusions. Often all of them are taken from one of the texts."""
    count = random.choices((1, 2, 3), (6, 3, 1))[0]
    source = random.choice(texts) if texts and random.random() < 0.7 else ""
    clauses = [_clause(random, source) for _ in range(count)]
    if random.random() < 0.2:
        excluded = _clause(random, "" if random.random() < 0.8 else source)
        clauses.insert(random.randint(0, count), Clause(excluded.kind, excluded.text, excludes=True))
    if clauses[-1].kind is Kind.WORD and random.random() < 0.5:
        clauses[-1] = Clause(Kind.WORD, _beginning(random, clauses[-1].text), clauses[-1].excludes)
    return tuple(clauses)


def _clause(random: Random, source: str) -> Clause:
    tokens = [token for token in tokens_of(source) if token.is_clear]
    if tokens and random.random() < 0.9:
        return _clause_from(random, source, random.choice(tokens))
    kind = random.choices((Kind.WORD, Kind.PART, Kind.EMOJI, Kind.CODE), (10, 7, 1, 1))[0]
    match kind:
        case Kind.PART:
            return Clause(kind, _part(random, unspaced_run(random, 2)))
        case Kind.EMOJI:
            return Clause(kind, spell(random, random.choice(EMOJI)))
        case Kind.CODE:
            return Clause(kind, spell(random, random.choice(CODE)))
        case _:
            return Clause(kind, spaced_word(random))


def _clause_from(random: Random, source: str, token: Token) -> Clause:
    """Return a clause for a word of a text, or a phrase there."""
    if random.random() < 0.2:
        return _phrase(random, source)
    text = source[token.start : token.end]
    if token.script == "emoji":
        return Clause(Kind.EMOJI, text)
    if token.script.startswith("unspaced"):
        return Clause(Kind.PART, _part(random, text))
    return Clause(Kind.WORD, random.choice((text, token.plain, text.upper())))


def _phrase(random: Random, text: str) -> Clause:
    """Return a phrase of one to three parts of a text that follow one another."""
    tokens = tokens_of(text)
    if not tokens:
        return Clause(Kind.WORD, spaced_word(random))
    start = random.randrange(len(tokens))
    end = min(len(tokens), start + random.randint(1, 3))
    return Clause(Kind.PHRASE, text[tokens[start].start : tokens[end - 1].end])


def _beginning(random: Random, word: str) -> str:
    """Return a word up to one of its characters. None is cut from its marks."""
    letters = unicodedata.normalize("NFC", word)
    ends = [n for n in range(1, len(letters) + 1) if not _is_mark(letters[n : n + 1])]
    return letters[: random.choice(ends)]


def _part(random: Random, run: str) -> str:
    """Return at least two characters of a run. None is cut from its marks."""
    letters = plain(run)
    ends = [n for n in range(len(letters) + 1) if not _is_mark(letters[n : n + 1])]
    start = random.choice([n for n in ends if len(letters) - n >= 2])
    return letters[start : random.choice([n for n in ends if n - start >= 2])]


def _is_mark(char: str) -> bool:
    return bool(char) and unicodedata.category(char)[0] == "M"
