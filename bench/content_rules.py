"""CPU time of content rules per message, with 1,000 words and 10 patterns.

Run: python -m bench.content_rules [FOLDER]. The folder has logs of chats, `*.jsonl` with a `text` in each line. Without
one, made-up messages are judged.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from store.base.ids import ConversationId
from store.content_rules.content_rule import ContentAction, ContentRule
from store.content_rules.rule_matcher import RuleMatcher

PATTERNS = (
    r"\b\d{3}-\d{4}\b",
    r"free\s+(money|bitcoin)",
    r"(https?://)?(bit\.ly|t\.co)/\w+",
    r"(a+)+$",
    r"[A-Z]{40,}",
    r"\bv[i1]agra\b",
    r"discord\.gg/\w+",
    r"\$\d+k a (day|week)",
    r"x{30,}",
    r"\pL\d\pL\d\pL\d\pL\d",
)
_ROUNDS = 5


def _texts(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if isinstance(row, dict) and isinstance(row.get("text"), str) and row["text"]:
                yield row["text"]


def _made_up(random_: random.Random) -> Iterator[str]:
    words = ["".join(random_.choices("etaoinshrdlu", k=random_.randint(2, 9))) for _ in range(2_000)]
    for _ in range(5_000):
        yield " ".join(random_.choices(words, k=random_.randint(1, 25)))


def main() -> None:
    """Print microseconds of CPU per message."""
    random_ = random.Random(1)
    texts = list(_texts(Path(sys.argv[1]))) if len(sys.argv) > 1 else list(_made_up(random_))
    words = tuple("".join(random_.choices("etaoinshrdlu", k=random_.randint(4, 12))) for _ in range(1_000))
    channel = ConversationId("c_1.1")
    print(f"{len(texts):,} messages, {sum(map(len, texts)) / len(texts):.0f} characters on average")
    for name, rule_words, patterns in (
        ("1,000 words and 10 patterns", words, PATTERNS),
        ("1,000 words", words, ()),
        ("10 patterns", (), PATTERNS),
    ):
        began = time.process_time()
        matcher = RuleMatcher([ContentRule("cr_1", rule_words, patterns, ContentAction.BLOCK)])
        compiled = time.process_time()
        matched = 0
        for _ in range(_ROUNDS):
            matched = sum(matcher.judge([text], channel) is not None for text in texts)
        used = (time.process_time() - compiled) / (_ROUNDS * len(texts))
        print(f"{name}: {used * 1e6:.1f} us a message; compiled in {(compiled - began) * 1e3:.1f} ms; {matched} match")


if __name__ == "__main__":
    main()
