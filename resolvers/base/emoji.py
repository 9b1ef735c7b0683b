"""Emoji that clients send: one emoji of Unicode in its fully qualified form, or a name between colons."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import cache

from resolvers.base.errors import InvalidInput

_NAME = re.compile(r":[a-z0-9_+-]{2,32}:\Z", re.ASCII)
_LONGEST = 40
"""Code points. No emoji of Unicode has more than about ten."""

_AS_EMOJI = "\N{VARIATION SELECTOR-16}"
"""Asks for the presentation as an emoji. Spellings of one emoji differ by it only."""


async def check_emoji(text: str, field: str = "emoji") -> str:
    """Return an emoji in the form in which it is stored. Raises InvalidInput.

    Unicode emoji get their fully qualified form. Those with different skin tones are different emoji.
    """
    if _NAME.match(text):
        return text
    if text.isascii() or len(text) > _LONGEST:
        raise _error(field)
    # The table is read when it is first needed. That takes some 50 ms.
    known = _qualified_forms() if _qualified_forms.cache_info().currsize else await asyncio.to_thread(_qualified_forms)
    found = known.get(text.replace(_AS_EMOJI, ""))
    if found is None or not _is_spelling(text):
        raise _error(field)
    return found


def _is_spelling(text: str) -> bool:
    """Return whether each variation selector follows a character of an emoji."""
    return not text.startswith(_AS_EMOJI) and _AS_EMOJI * 2 not in text


@cache
def _qualified_forms() -> Mapping[str, str]:
    """Return the fully qualified form of each emoji by its form without variation selectors."""
    import emoji  # needed by few requests, and slow

    qualified = emoji.STATUS["fully_qualified"]
    return {
        form.replace(_AS_EMOJI, ""): form
        for form, data in emoji.EMOJI_DATA.items()
        if data["status"] <= qualified and data["status"] != emoji.STATUS["component"]
    }


def _error(field: str) -> InvalidInput:
    return InvalidInput(
        f"{field} must be one emoji of Unicode, or a name of 2 to 32 of a-z, 0-9, _, + and - between colons",
        field=field,
    )
