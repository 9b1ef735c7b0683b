"""Sections about the account: profile, devices, and settings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import orjson

from resolvers.base.times import iso_text_or_none
from resolvers.export.section import Exported, Record


async def list_profile(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the profile."""
    user = await exported.app.store.users.find(exported.user)
    if user is not None:
        metadata = orjson.loads(user.metadata) if user.metadata is not None else None
        yield [
            {
                "id": user.id,
                "displayName": user.display_name,
                "avatarUrl": user.avatar_url,
                "isBot": user.is_bot,
                "metadata": metadata,
            }
        ]


async def list_devices(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the devices. Push tokens and keys are left out: who has them may send pushes to the device."""
    yield [
        {
            "id": device.id,
            "type": device.type.value,
            "name": device.name,
            "locale": device.locale,
            "createdAt": iso_text_or_none(device.created_ms),
            "lastSeenAt": iso_text_or_none(device.seen_ms),
            "pushPlatform": device.push.platform.value if device.push is not None else None,
        }
        for device in await exported.app.store.devices.list(exported.user)
    ]


async def list_notification_settings(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the notification settings."""
    found = await exported.app.store.notification_settings.find_many([exported.user])
    yield [
        {
            "level": settings.level.value,
            "doNotDisturbFrom": _time_of_day(settings.dnd_from),
            "doNotDisturbTo": _time_of_day(settings.dnd_to),
            "timeZone": settings.time_zone,
            "delaySeconds": settings.delay_seconds,
            "showPreview": settings.shows_preview,
            "keywords": list(settings.keywords),
        }
        for settings in found.values()
    ]


async def list_presence(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the presence that the user has set, the custom status, and when others last saw the user."""
    store = exported.app.store
    now_ms = store.clock.now_ms()
    for record in (await store.presence.read([exported.user])).values():
        setting, status = record.setting.at(now_ms), record.custom_status_at(now_ms)
        shown = None
        if status is not None:
            shown = {"text": status.text, "emoji": status.emoji, "expiresAt": iso_text_or_none(status.expires_at_ms)}
        yield [
            {
                "setting": setting.value.value,
                "until": iso_text_or_none(setting.until_ms),
                "customStatus": shown,
                "lastSeenAt": iso_text_or_none(record.seen_ms),
            }
        ]


def _time_of_day(minute: int | None) -> str | None:
    return None if minute is None else f"{minute // 60:02}:{minute % 60:02}"
