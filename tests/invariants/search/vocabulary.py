"""Words in many scripts, spelled in several ways, and messages made of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

SPACED: dict[str, tuple[tuple[str, ...], ...]] = {
    "Latin": (
        ("café", "CAFÉ", "cafe", "cafe\u0301", "\uff23\uff41\uff46\uff45"),
        ("cafeteria",),
        ("straße", "STRASSE", "Strasse"),
        ("run", "Run", "RUN"),
        ("runner",),
        ("Zürich", "zurich"),
        ("año", "ano"),
    ),
    "Greek": (("λόγος", "ΛΟΓΟΣ", "λογος"), ("λόγοι",)),
    "Cyrillic": (("ёлка", "ЕЛКА", "елка"), ("кот", "Кот"), ("котик",), ("съезд", "СЪЕЗД")),
    "Arabic": (("كتاب", "كِتَاب"), ("كتابة",), ("مدينة",), ("سلام", "سَلَام")),
    "Devanagari": (("हिन्दी",), ("किताब",), ("काम",), ("कामना",), ("नमस्ते",)),
}
"""Words of scripts that separate words by spaces. The spellings of one word are equal for those who search."""

UNSPACED: dict[str, tuple[tuple[str, ...], ...]] = {
    "Han and kana": (
        ("東京",),
        ("会議室",),
        ("天気予報",),
        ("カメラ", "ｶﾒﾗ"),
        ("ひらがな",),
        ("ガラス", "カ\u3099ラス"),
        ("京都",),
    ),
    "Hangul": (("회의실", "회의실"), ("서울",), ("안녕하세요",), ("회의",)),
    "Thai": (("สวัสดี",), ("ภาษาไทย",)),
}
"""Words of scripts in which any part of two characters is found."""

EMOJI = (("🎉",), ("👍", "👍🏽"), ("❤️", "❤"), ("🚀",))
CODE = (("foo_bar", "FOO_BAR"), ("10.0.0.1",), ("C++", "c++"), ("https://example.org/a",), ("#ubuntu",))
LINK = "https://example.org/a"


def spell(random: Random, word: Sequence[str]) -> str:
    """Return one of the spellings of a word."""
    return random.choice(word)


def spaced_word(random: Random) -> str:
    return spell(random, random.choice(SPACED[random.choice(list(SPACED))]))


def unspaced_run(random: Random, most: int = 3) -> str:
    """Return words of one script without spaces between them."""
    words = UNSPACED[random.choice(list(UNSPACED))]
    return "".join(spell(random, random.choice(words)) for _ in range(random.randint(1, most)))


def message_text(random: Random) -> str:
    """Return a message of one to six parts in one or several scripts."""
    parts: list[str] = []
    for _ in range(random.randint(1, 6)):
        part = random.choices((spaced_word, unspaced_run, _emoji, _code), (10, 7, 2, 2))[0](random)
        glue = random.choices((" ", ", ", "! ", "\n", "", "\u3000"), (12, 2, 2, 1, 2, 1))[0]
        if glue == "" and not (parts and _may_touch(parts[-1], part)):
            glue = " "
        parts += [glue, part] if parts else [part]
    return "".join(parts)


def _emoji(random: Random) -> str:
    return spell(random, random.choice(EMOJI))


def _code(random: Random) -> str:
    return spell(random, random.choice(CODE))


def _may_touch(one: str, other: str) -> bool:
    """Return whether two parts stay two words without a space: if exactly one of them is of an unspaced script."""
    return (_is_unspaced(one) and _is_spaced(other)) or (_is_spaced(one) and _is_unspaced(other))


def _is_unspaced(part: str) -> bool:
    return any(part.startswith(spelling) for words in UNSPACED.values() for word in words for spelling in word)


def _is_spaced(part: str) -> bool:
    return any(part == spelling for words in SPACED.values() for word in words for spelling in word)
