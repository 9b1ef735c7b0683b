"""The searches that are measured, by kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from bench.search.history import History
from bench.search.texts import Language

CJK = (Language.CHINESE, Language.JAPANESE, Language.KOREAN)
_COMMON_RANKS = 200
_SKIPPED_RANKS = 10
"""The words that are in almost every message are not searched for."""
_RARE = 3


@dataclass(frozen=True, slots=True)
class Question:
    """A search. `page`: the page that is measured, from 1."""

    query: str
    filter: dict[str, Any] = field(default_factory=dict)
    page: int = 1


@dataclass(frozen=True, slots=True)
class Kind:
    """Different questions of one kind. `pattern`: returns a regular expression that finds about the same."""

    name: str
    questions: Sequence[Question]
    pattern: Callable[[str], str] | None = None


def make_kinds(history: History, count: int) -> list[Kind]:
    """Return the kinds of questions, with at most `count` different questions each."""
    rng = random.Random("questions")
    english = history.words[Language.ENGLISH]
    ranked = [word for word, _ in english.most_common(_COMMON_RANKS) if len(word) > 1]
    common = ranked[_SKIPPED_RANKS:]
    rare = sorted(word for word, found in english.items() if found <= _RARE and len(word) >= 4)
    pairs = _distinct(count, lambda: " ".join(rng.sample(common, 2)))
    mixed = _distinct(count, lambda: _rare_and_common(rng, history, common))
    phrases = _distinct(count, lambda: _phrase(rng, history, 2))
    beginnings = [_some(rng, sorted({word[:size] for word in common if len(word) > size}), count) for size in (1, 2, 3)]
    english_ones = [each.id for each in history.conversations[:15] if each.language is Language.ENGLISH]
    people = history.conversations[0].people

    def ask(queries: Sequence[str], page: int = 1, **given: Any) -> list[Question]:
        return [Question(query, given, page) for query in queries]

    # The last word of a query may be the beginning of one, so that a lone word is quoted to be a whole one.
    words = [f'"{word}"' for word in rng.sample(common, min(count, len(common)))]
    kinds = [
        Kind("a rare word", ask([f'"{word}"' for word in _some(rng, rare, count)]), _whole_word),
        Kind("a common word", ask(words), _whole_word),
        Kind("a word that nobody wrote", ask([f'"qqq{word}qqq"' for word in common[:count]]), _whole_word),
        Kind("two common words", ask([f'"{a}" "{b}"' for a, b in map(str.split, pairs)])),
        Kind("a rare and a common word", ask([f'"{a}" "{b}"' for a, b in map(str.split, mixed)])),
        Kind("a phrase of two words", ask([f'"{phrase}"' for phrase in phrases]), _whole_word),
        Kind("a common word without another one", ask([f'"{a}" -{b}' for a, b in map(str.split, pairs)])),
        *(
            Kind(f"beginning of {size} letter{'s' * (size > 1)}", ask(queries), _beginning)
            for size, queries in enumerate(beginnings, 1)
        ),
        Kind("a word and the beginning of another", ask([f"{pair[:-1]}" for pair in pairs])),
        Kind("two characters of Chinese, Japanese, Korean", ask(_distinct(count, lambda: _run(rng, history, 2))), str),
        Kind("four characters", ask(_distinct(count, lambda: _run(rng, history, 4))), str),
        Kind("a common word by one sender", [q for word in words for q in ask([word], senderIds=[rng.choice(people)])]),
        Kind(
            "a common word in one conversation",
            [q for word in words for q in ask([word], conversationIds=[rng.choice(english_ones)])],
        ),
        Kind("a common word, page 2", ask(words, page=2)),
        Kind("a common word, page 10", ask(words, page=10)),
    ]
    return [kind for kind in kinds if kind.questions]


def _distinct(count: int, make: Callable[[], str]) -> list[str]:
    """Return different texts that a function makes, `count` of them if it makes as many."""

    def attempts() -> Iterator[str]:
        for _ in range(20 * count):
            yield make()

    return list(islice((text for text in dict.fromkeys(attempts()) if text), count))


def _some(rng: random.Random, words: Sequence[str], count: int) -> list[str]:
    return rng.sample(words, min(count, len(words)))


def _rare_and_common(rng: random.Random, history: History, common: Sequence[str]) -> str:
    words = rng.choice(history.samples[Language.ENGLISH]).lower().split()
    frequent = [word for word in words if word in common]
    others = [word for word in words if word.isalpha() and len(word) >= 4 and word not in frequent]
    if not frequent or not others:
        return ""
    return f"{min(others, key=history.words[Language.ENGLISH].__getitem__)} {rng.choice(frequent)}"


def _phrase(rng: random.Random, history: History, length: int) -> str:
    words = rng.choice(history.samples[Language.ENGLISH]).lower().split()
    places = [place for place in range(len(words) - length + 1) if "".join(words[place : place + length]).isalpha()]
    if not places:
        return ""
    place = rng.choice(places)
    return " ".join(words[place : place + length])


def _run(rng: random.Random, history: History, length: int) -> str:
    """Return neighbouring characters of a message."""
    text = rng.choice(history.samples[rng.choice(CJK)])
    place = rng.randrange(max(1, len(text) - length))
    run = text[place : place + length]
    return run if len(run) == length and not run.isascii() and " " not in run and run.isalpha() else ""


def _whole_word(query: str) -> str:
    return rf"\b{query.strip(chr(34))}\b"


def _beginning(query: str) -> str:
    return rf"\b{query}"
