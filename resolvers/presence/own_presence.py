"""The presence that users set, and their own view of it."""

from __future__ import annotations

from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.checks import check_name
from resolvers.base.emoji import check_emoji
from resolvers.base.times import check_future
from store.base.ids import UserId
from store.presence.presence_record import CustomStatus, PresenceRecord, PresenceSetting
from store.presence.presence_store import ChangedPresence
from store.presence.shown_presence import PresenceStatus, shown_presence

LONGEST_TEXT = 128


@dataclass(frozen=True, slots=True)
class OwnPresence:
    """The presence of a user for the user themselves, at a moment.

    Attributes:
        record: Everything that is known.
        setting: What the user has set.
        until_ms: When the setting ends by itself; None: never.
        shown: What others see.
        custom_status: What the user shows; None: nothing.
    """

    record: PresenceRecord
    setting: PresenceSetting
    until_ms: int | None
    shown: PresenceStatus
    custom_status: CustomStatus | None


def own_presence_from(app: Confab, record: PresenceRecord) -> OwnPresence:
    """Return a user's own view of a record at present."""
    now_ms = app.store.clock.now_ms()
    setting = record.setting.at(now_ms)
    shown = shown_presence(record, app.store.presence.find_end, now_ms).shown
    return OwnPresence(record, setting.value, setting.until_ms, shown.status, record.custom_status_at(now_ms))


async def set_presence(app: Confab, user: UserId, value: PresenceSetting, until_ms: int | None) -> OwnPresence:
    """Set the presence of a user. `until_ms`: when it becomes ONLINE by itself. Raises InvalidInput.

    Receipts that were held back while the user was INVISIBLE are sent.
    """
    check_future(until_ms, app.store.clock.now_ms(), "until")
    # ONLINE that becomes ONLINE has no end.
    until_ms = until_ms if value is not PresenceSetting.ONLINE else None
    change = await app.store.presence.set_presence(user, value, until_ms)
    app.receipt_release.begin(user)
    return _announce(app, change)


async def set_custom_status(
    app: Confab, user: UserId, text: str | None, emoji: str | None, expires_at_ms: int | None
) -> OwnPresence:
    """Set or remove the custom status of a user. An empty text or emoji is none. Raises InvalidInput."""
    check_future(expires_at_ms, app.store.clock.now_ms(), "expiresAt")
    if text:
        check_name(text, "text", LONGEST_TEXT)
    qualified = await check_emoji(emoji) if emoji else None
    status = CustomStatus(text or None, qualified, expires_at_ms) if text or qualified else None
    return _announce(app, await app.store.presence.set_custom_status(user, status))


def _announce(app: Confab, change: ChangedPresence) -> OwnPresence:
    app.devices.announce([change])
    app.presence.publish([change])
    return own_presence_from(app, change.record)
