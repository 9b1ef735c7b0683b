"""User ids that need encoding inside other ids, or that code could mistake for something else."""

from __future__ import annotations

from urllib.parse import quote, unquote

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

NAMES = (
    "ann",
    "ben",
    *(user for user in UNUSUAL_USER_IDS if len(user) < 100),
    "\N{GRINNING FACE}" * 119,
)
"""Names that `create_users` makes unusual user ids of: the last one gets 128 characters."""

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


def encoded(user: str) -> str:
    """Return the form that a user id has inside other ids, as the contract tells it."""
    return quote(user, safe="@").replace("_", "%5F").replace("~", "%7E")


def private_id(one: str, other: str, sub_biz: str | None = None) -> str:
    """Return the id of two users' private conversation, optionally within a subBiz, in the form of the contract."""
    return "p_" + "_".join(map(encoded, sorted((one, other)))) + (f"~{sub_biz}" if sub_biz else "")


def people_of(conversation: str) -> list[str]:
    """Return the users of a private conversation, by its id."""
    return [unquote(user) for user in conversation[2:].partition("~")[0].split("_")]
