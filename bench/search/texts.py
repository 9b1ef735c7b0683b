"""Texts of messages: lines of chat logs, and made text in Chinese, Japanese and Korean.

The same arguments give the same texts in each run. A log that is used several times is varied: each later time some of
its words are replaced, so that the number of different words grows with the number of messages, as it does in real
chats.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from server.chat_import.log_file import MessageLine, read_chat

_REPLACED = 0.15
"""Share of the words of a varied line that are replaced."""

_MADE_WORDS = 200_000
_SYLLABLES = [consonant + vowel for consonant in "bcdfghklmnprstvwz" for vowel in ("a", "e", "i", "o", "u", "er")]
_LINES_WITHOUT_LOG = 5_000

_CHARACTERS = {
    "zh": (
        "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以"
        "生会自着去之过家学对可她里后小么心多天而能好都然没日于起还发成事只作当想"
        "看文无开手十用主行方又如前所本见经头面公同三已老从动两长知民样现分将外但"
        "身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正名定女问力机"
        "给等几很业最间新什打便位因重被走电四第门相次东政海口使教西再平真听世气信"
        "北少关并内加化由却代军产入先山五太水万市眼体别处总才场师书比住员九笑性通"
        "目华报立"
    ),
    "ja": (
        "のにはをがでとしれさるいないあこすてたなかまもよらりうくけつわそえおきせ"
        "だねみちどじめばびゃゅょろんスンルトラリクアイドレシタマメーロプテフコニ"
        "サ日一人年大十二本中長出三同時政事自行社見月分議後前民生連五発間対上部東"
        "者党地合市業内相方四定今回新場金員九入選立開手米力学問高代明実円関決子動"
        "京全目表戦経通外最言氏現理調体化田当八六約主題下首意法"
    ),
    "ko": (
        "이다는에을의가고하한지를은도로사기서어인자대나시리아해그일들전제보수상라"
        "장부정주과만있거원조여구세동게공유소비신국마방문중안모선치경오요성관내우"
        "무면러야물위미생회분용교적음발간결학연실화행개명민말력저진심했되으까니던"
        "네려와단년된반"
    ),
}
_SPACED = frozenset({"ko"})
_JARGON = ("iPhone", "Wi-Fi", "USB", "Linux", "GPU", "v2.1", "PDF", "OK")


class Language(StrEnum):
    """Language of a conversation."""

    ENGLISH = "en"
    CHINESE = "zh"
    JAPANESE = "ja"
    KOREAN = "ko"


class Line(NamedTuple):
    """The text of a message, and the number of its writer."""

    writer: int
    text: str


class Texts:
    """Lines of endless conversations."""

    def __init__(self, logs: Sequence[Path]) -> None:
        """Read the logs. Without any, English lines are made too."""
        self._logs = [_read(log) for log in logs] or [_made_log()]
        self._lines = [line for log in self._logs for line in log]
        self._words = {language: _cjk_words(language) for language in _CHARACTERS}

    @property
    def logs(self) -> int:
        """Number of logs."""
        return len(self._logs)

    def conversation(self, language: Language, number: int) -> Iterator[Line]:
        """Yield the lines of a conversation without end.

        The first English ones have the logs, each one of them, unchanged. The others begin anywhere in them.
        """
        rng = random.Random(f"{language} {number}")
        if language is Language.ENGLISH:
            return self._english(rng, number)
        return self._cjk(rng, language)

    def _english(self, rng: random.Random, number: int) -> Iterator[Line]:
        if number < len(self._logs):
            yield from self._logs[number]
        place = rng.randrange(len(self._lines))
        while True:
            line = self._lines[place % len(self._lines)]
            words = [_made_word(rng) if rng.random() < _REPLACED else word for word in line.text.split(" ")]
            yield Line(line.writer, " ".join(words))
            place += 1

    def _cjk(self, rng: random.Random, language: Language) -> Iterator[Line]:
        words = self._words[language]
        while True:
            parts = [words[_rank(rng, len(words))] for _ in range(rng.randint(3, 14))]
            if rng.random() < 0.1:
                parts.insert(rng.randrange(len(parts)), rng.choice(_JARGON))
            yield Line(rng.randrange(1_000), (" " if language in _SPACED else "").join(parts))


def _read(log: Path) -> list[Line]:
    writers: dict[str, int] = {}
    lines = [line for line in read_chat(log).lines if isinstance(line, MessageLine) and line.text.strip()]
    return [Line(writers.setdefault(line.nick, len(writers)), line.text) for line in lines]


def _made_log() -> list[Line]:
    rng = random.Random("log")
    lengths = (rng.randint(2, 20) for _ in range(_LINES_WITHOUT_LOG))
    return [Line(rng.randrange(1_000), " ".join(_made_word(rng) for _ in range(length))) for length in lengths]


def _rank(rng: random.Random, size: int) -> int:
    """Return a number below `size`, each with a probability of about 1 / (number + 1), as words in texts have."""
    return int(float((size + 1) ** rng.random())) - 1


def _made_word(rng: random.Random) -> str:
    """Return a word of two to four syllables."""
    number = _rank(rng, _MADE_WORDS) + len(_SYLLABLES)
    syllables = []
    while number:
        number, syllable = divmod(number, len(_SYLLABLES))
        syllables.append(_SYLLABLES[syllable])
    return "".join(syllables)


def _cjk_words(language: str) -> list[str]:
    rng = random.Random(language)
    characters = _CHARACTERS[language]

    def make() -> str:
        length = rng.choices((1, 2, 3), (20, 65, 15))[0]
        return "".join(rng.choices(characters, k=length))

    return [make() for _ in range(20_000)]
