"""User ids that need encoding inside other ids, or that code could mistake for something else."""

from __future__ import annotations

UNUSUAL_USER_IDS = (
    "auth0|7",
    "user_2N",
    "a/b",
    "%41",
    "~x",
    "{u}",
    '"quote',
    "}:meta",
    "g_1",
    "p_a_b",
    "$a.b",
    "back\\slash",
    "\N{GRINNING FACE}\N{HEAVY BLACK HEART}\N{VARIATION SELECTOR-16}",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    "cafe\N{COMBINING ACUTE ACCENT}",
    "\N{GRINNING FACE}" * 128,
)

NOT_USER_IDS = (
    "",
    " ",
    "a b",
    "a\tb",
    "a\n",
    "a\0b",
    "a\x7fb",
    "a\N{NO-BREAK SPACE}b",
    "a\N{IDEOGRAPHIC SPACE}b",
    "a\N{ZERO WIDTH SPACE}b",
    "a\N{ZERO WIDTH JOINER}b",
    "a\N{RIGHT-TO-LEFT OVERRIDE}b",
    "a\N{SOFT HYPHEN}b",
    "a\N{LINE SEPARATOR}b",
    "a\ud800b",
    "a\ue000b",
    "a\uffffb",
    "a" * 129,
    "\N{GRINNING FACE}" * 129,
)
