"""Names that people read: removes characters that cannot be seen or that change the direction of text.

Such characters make two names look the same, hide text, or reverse the text after a name. Some scripts and emoji need
a few of them. They are kept where they have an effect:

- ZWJ and ZWNJ between letters of a script that joins or stacks letters (Persian, Devanagari, Malayalam), after a
  virama, and ZWJ between emoji (families, professions).
- Variation selectors after emoji, ideographs and Mongolian letters.
- Tags in the flag of a region, such as Scotland.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right

from resolvers.base.checks import LONGEST_NAME, check_name

_ZWNJ, _ZWJ = "\u200c", "\u200d"
_LONGEST_CLEANED = 10 * LONGEST_NAME
"""Longer names are refused without cleaning, which would take time for each character."""

_LINE_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f]+")
_VIRAMA_CLASS = 9

_FLAG_OF_A_REGION = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
_HIDDEN_CHARACTERS = (
    "\u00ad\u034f\u061c"
    "\u115f\u1160"  # fillers of Hangul
    "\u17b4\u17b5"  # inherent vowels of Khmer
    "\u180b-\u180f"  # selectors and vowel separator of Mongolian
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f"  # joiners, marks, embeddings, overrides, isolates
    "\u3164"
    "\ufe00-\ufe0f"  # variation selectors
    "\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags, and variation selectors of ideographs
)
"""Format characters (Cf), and characters that Unicode calls default ignorable.

The number signs of Arabic, Syriac and Kaithi are in Cf too. They are visible, so they are kept.
"""

_BLANKS = "\u2028\u2029\u2800"
"""Line separator, paragraph separator, and the blank of Braille: they become a space."""

_HIDDEN = re.compile(f"{_FLAG_OF_A_REGION}|[{_HIDDEN_CHARACTERS}{_BLANKS}]")
"""A hidden character, or a flag of a region, whose tags are kept."""

_JOINING_RANGES = (
    (0x0600, 0x0DFF),  # Arabic to Sinhala
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x18AF),  # Khmer, Mongolian
    (0x1900, 0x1CFF),
    (0xA800, 0xAAFF),
    (0xABC0, 0xABFF),
    (0xFB50, 0xFDFF),
    (0xFE70, 0xFEFC),
    (0x10A00, 0x10FFF),
    (0x11000, 0x11FFF),
    (0x1E900, 0x1E95F),
)
"""Blocks of scripts whose letters change with their neighbours."""

_EMOJI_RANGES = ((0x2190, 0x2BFF), (0x1F000, 0x1FAFF))
_EMOJI_OUTSIDE_OF_RANGES = frozenset("\u00a9\u00ae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299")
_EMOJI_SELECTOR = "\ufe0f"
_KEYCAP = "\u20e3"


def clean_name(name: str) -> str:
    """Return a name without hidden characters. Lone surrogates and control characters are kept."""
    kept, end = "", 0
    for found in _HIDDEN.finditer(name):
        kept += name[end : found.start()]
        end = found.end()
        if found[0] in _BLANKS:
            kept += " "
        elif len(found[0]) > 1 or _has_effect(found[0], kept[-2:], name[end : end + 1]):
            kept += found[0]
    return kept + name[end:]


def accept_name(name: str, field: str, longest: int = LONGEST_NAME) -> str:
    """Return a name as it is stored: without hidden characters. longest: largest number of characters.

    Raises InvalidInput for a name that is empty, blank or too long without them, or that has control characters or lone
    surrogates.
    """
    cleaned = clean_name(name) if len(name) <= _LONGEST_CLEANED else name
    check_name(cleaned, field, longest)
    return cleaned


def accept_external_name(name: str, field: str) -> str:
    """Return a name from another system as it is stored: like `accept_name`, but on one line.

    Control characters and line breaks become a space, and white space around the name is removed.
    """
    if len(name) <= _LONGEST_CLEANED:
        name = _LINE_BREAKS.sub(" ", clean_name(name)).strip()
    return accept_name(name, field)


def _has_effect(character: str, before: str, after: str) -> bool:
    """Return whether a hidden character changes how its neighbours are shown."""
    previous = before[-1:]
    if not previous:
        return False
    if character in (_ZWJ, _ZWNJ):
        if unicodedata.combining(previous) == _VIRAMA_CLASS:
            return True
        if _is_joining(previous) and _is_joining(after) and not _HIDDEN.match(after):
            return True
        return character == _ZWJ and _is_emoji(before.rstrip(_EMOJI_SELECTOR)[-1:]) and _is_emoji(after)
    code = ord(character)
    if code in (0xFE0E, 0xFE0F) and (_is_emoji(previous) or (previous in "0123456789#*" and after == _KEYCAP)):
        return True
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return unicodedata.name(previous, "").startswith("CJK ")
    if 0x180B <= code <= 0x180F:
        return 0x1820 <= ord(previous) <= 0x18AA
    return False


def _is_joining(character: str) -> bool:
    return bool(character) and unicodedata.category(character)[0] in "LM" and _is_in(character, _JOINING_RANGES)


def _is_emoji(character: str) -> bool:
    return bool(character) and (_is_in(character, _EMOJI_RANGES) or character in _EMOJI_OUTSIDE_OF_RANGES)


def _is_in(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    code = ord(character)
    place = bisect_right(ranges, (code, 0x110000)) - 1
    return place >= 0 and code <= ranges[place][1]
