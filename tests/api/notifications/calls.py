"""GraphQL documents about notification settings."""

from __future__ import annotations

from typing import Any

from tests.api.client import Api, Json

SETTINGS = "level doNotDisturbFrom doNotDisturbTo timeZone delaySeconds showPreview keywords"
SET = f"mutation ($input: NotificationSettingsInput!) {{ setNotificationSettings(input: $input) {{ {SETTINGS} }} }}"
OWN = f"{{ notificationSettings {{ {SETTINGS} }} }}"
READY = f"{{ ready {{ notificationSettings {{ {SETTINGS} }} }} }}"
NOTHING_SET = {
    "level": "ALL",
    "doNotDisturbFrom": None,
    "doNotDisturbTo": None,
    "timeZone": "UTC",
    "delaySeconds": 10,
    "showPreview": True,
    "keywords": [],
}
EVERYTHING = {
    "level": "MENTIONS",
    "doNotDisturbFrom": "22:30",
    "doNotDisturbTo": "07:00",
    "timeZone": "Europe/Berlin",
    "delaySeconds": 0,
    "showPreview": False,
    "keywords": ["on call", "Déploiement"],
}


async def set_settings(api: Api, user: str, **input: Any) -> Json:
    changed: Json = (await api.data(user, SET, input=input))["setNotificationSettings"]
    return changed


async def settings_of(api: Api, user: str) -> Json:
    """Return the settings of a user, which both queries have to answer alike."""
    own: Json = (await api.data(user, OWN))["notificationSettings"]
    assert (await api.data(user, READY))["ready"]["notificationSettings"] == own
    return own
