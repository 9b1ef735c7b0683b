"""Texts of many scripts, as people write them and as attackers do, for tests with generated data."""

from __future__ import annotations

from hypothesis import strategies as st

SPACED_WORDS = [
    *("install", "Nvidia", "don't", "x", "abc123", "3.14", "café", "cafe\u0301", "Straße", "ﬁne", "\uff21\uff22"),
    *(
        "люди",
        "Дом",
        "йод",
        "ΟΔΟΣ",
        "ά",
        "שָׁלוֹם",
        'צה"ל',
        "مرحبا",
        "كِتَاب",
        "١٢",
        "कमल",
        "क्षि",
        "বাংলা",
        "தமிழ்",
        "հայ",
        "ქარ",
    ),
]
RUNS = [
    "手机很好",
    "日本のアニメ",
    "か\u3099",
    "\uff76\uff9e\uff71",
    "한국어를",
    "\u1112\u1161\u11ab",
    "ㅋㅋㅠㅠ",
    "สวัสดี",
    "ເມືອງ",
    "ខ្ញុំ",
    "မြန်မာ",
]
TYPED = [
    *(
        "foo_bar",
        "10.0.0.1",
        "C++",
        "C#",
        ".NET",
        "#ubuntu",
        "@bob",
        "user@example.org",
        "https://a.b/c?d=e",
        ":smile:",
    ),
    *("a-b", "--help", "__init__", "a" * 30, "b" * 23 + "/c", "x+#@y", "$where"),
]
EMOJI = ["👍", "👍🏽", "\u2764\ufe0f", "👨\u200d👩\u200d👧", "🇩🇪", "🇫🇷", "🇩", "1\ufe0f\u20e3", "™", "→", "€"]
BETWEEN = [
    *" \n\t.,;:!?\"'()[]{}-_/\\@#+*&=$%~`|<>",
    "\u200f",
    "\u200d",
    "\0",
    "\ud800",
    "\u3002",
    "\u00ad",
    "\u0301",
    "\u094d",
]

ANY_PART = st.sampled_from([*SPACED_WORDS, *RUNS, *TYPED, *EMOJI, *BETWEEN, *([" "] * 20)])
TEXTS = st.lists(ANY_PART, max_size=12).map("".join) | st.text(max_size=30)
"""Texts of any parts side by side, and texts of any characters."""
