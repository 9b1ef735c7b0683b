"""Notification settings of the caller: accepted values, and changes."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.checks import check_name
from resolvers.base.errors import InvalidInput
from store.base.ids import UserId
from store.notifications.notification_settings import NotificationSettings
from store.sessions.fields import NotificationLevel
from store.text.folding import fold

LONGEST_DELAY_SECONDS = 3_600
MAX_KEYWORDS = 100
LONGEST_KEYWORD = 64

_OFF = ""
_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A change that a caller wants. None leaves a setting as it is.

    Attributes:
        level: Of conversations and workspaces without a level of their own.
        dnd_from: HH:MM in the time zone; "" switches do not disturb off.
        dnd_to: The same.
        time_zone: IANA name.
        delay_seconds: How long a push waits for a device in use.
        shows_preview: Notifications contain the text.
        keywords: Words that notify like a mention.
    """

    level: NotificationLevel | None = None
    dnd_from: str | None = None
    dnd_to: str | None = None
    time_zone: str | None = None
    delay_seconds: int | None = None
    shows_preview: bool | None = None
    keywords: Sequence[str] | None = None


async def find_settings(app: Confab, user: UserId) -> NotificationSettings:
    """Return the settings of a user: one round trip to Redis."""
    return await app.store.notification_settings.read(user)


async def change_settings(app: Confab, user: UserId, change: SettingsChange) -> NotificationSettings:
    """Change the settings of a user, and return all of them. Raises InvalidInput: nothing was changed."""
    time_zone, delay_seconds = change.time_zone, change.delay_seconds
    if time_zone is not None and time_zone not in time_zones():
        raise InvalidInput("timeZone must be an IANA name, like Europe/Berlin", field="timeZone")
    if delay_seconds is not None and not 0 <= delay_seconds <= LONGEST_DELAY_SECONDS:
        raise InvalidInput(f"delaySeconds must be from 0 to {LONGEST_DELAY_SECONDS}", field="delaySeconds")
    given: dict[str, Any] = {
        "level": change.level,
        "time_zone": time_zone,
        "delay_seconds": delay_seconds,
        "shows_preview": change.shows_preview,
        "keywords": None if change.keywords is None else _accept_keywords(change.keywords),
    }
    fields = {name: value for name, value in given.items() if value is not None}
    dnd_from = _parse_time(change.dnd_from, "doNotDisturbFrom")
    dnd_to = _parse_time(change.dnd_to, "doNotDisturbTo")

    def apply(before: NotificationSettings) -> NotificationSettings:
        start, end = _do_not_disturb(before, dnd_from, dnd_to)
        return replace(before, **fields, dnd_from=start, dnd_to=end)

    return await app.store.notification_settings.change(user, apply)


@functools.cache
def time_zones() -> frozenset[str]:
    """Return the names of all time zones. They come with a package, so they are the same on every machine."""
    return frozenset(importlib.resources.files("tzdata").joinpath("zones").read_text().split())


def format_time(minute: int | None) -> str | None:
    """Return a minute of the day as HH:MM."""
    return None if minute is None else f"{minute // 60:02}:{minute % 60:02}"


def _parse_time(text: str | None, field: str) -> int | str | None:
    """Return the minute of the day, or `_OFF`, or None."""
    if text is None or text == _OFF:
        return text
    found = _TIME_OF_DAY.fullmatch(text)
    if found is None:
        raise InvalidInput(f'{field} must be a time from 00:00 to 23:59 as HH:MM, or "" for off', field=field)
    return int(found[1]) * 60 + int(found[2])


def _do_not_disturb(
    before: NotificationSettings, start: int | str | None, end: int | str | None
) -> tuple[int | None, int | None]:
    """Return the two times after a change. Raises InvalidInput unless both or none are set."""
    if _OFF in (start, end):
        if isinstance(start, int) or isinstance(end, int):
            field = "doNotDisturbTo" if isinstance(start, int) else "doNotDisturbFrom"
            raise InvalidInput("do not disturb needs both times; leave the other one out to switch it off", field=field)
        return None, None
    begins = start if isinstance(start, int) else before.dnd_from
    ends = end if isinstance(end, int) else before.dnd_to
    if (begins is None) != (ends is None):
        field = "doNotDisturbTo" if ends is None else "doNotDisturbFrom"
        raise InvalidInput(f"do not disturb needs both times: give {field} too", field=field)
    if begins is not None and begins == ends:
        raise InvalidInput("doNotDisturbFrom and doNotDisturbTo must differ", field="doNotDisturbTo")
    return begins, ends


def _accept_keywords(keywords: Sequence[str]) -> tuple[str, ...]:
    """Return keywords without white space around them. Of those that differ in case or marks only, the first stays."""
    if len(keywords) > MAX_KEYWORDS:
        raise InvalidInput(f"give at most {MAX_KEYWORDS} keywords", field="keywords")
    accepted: dict[str, str] = {}
    for keyword in keywords:
        check_name(keyword, "keywords", LONGEST_KEYWORD)
        trimmed = keyword.strip()
        folded = fold(trimmed)
        if not folded:
            raise InvalidInput("keywords must contain letters, digits or symbols", field="keywords")
        accepted.setdefault(folded, trimmed)
    return tuple(accepted.values())
