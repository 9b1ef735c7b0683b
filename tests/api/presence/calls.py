"""GraphQL documents about presence."""

from __future__ import annotations

from typing import Any

from tests.api.client import Api, Json

PRESENCE = """user { id displayName } status isMobile customStatus { text emoji expiresAt }
    activities { type name details state startedAt endsAt } lastActiveAt"""
OWN = "setting until shown customStatus { text emoji expiresAt }"

PRESENCES = f"query ($users: [ID!]!) {{ presences(userIds: $users) {{ {PRESENCE} at }} }}"
PRESENCE_OF = f"query ($id: ID!) {{ user(id: $id) {{ presence {{ {PRESENCE} }} }} }}"
SET_PRESENCE = f"""mutation ($status: PresenceSetting!, $until: DateTime) {{
    setPresence(status: $status, until: $until) {{ {OWN} }} }}"""
SET_STATUS = f"""mutation ($text: String, $emoji: String, $expiresAt: DateTime) {{
    setCustomStatus(text: $text, emoji: $emoji, expiresAt: $expiresAt) {{ {OWN} }} }}"""
REPORT = f"""mutation ($active: Boolean!, $activities: [ActivityInput!]) {{
    reportActivity(active: $active, activities: $activities) {{ {OWN} }} }}"""
READY = f"{{ ready {{ presence {{ {OWN} }} }} }}"


async def presences(api: Api, viewer: str, *users: str) -> list[Json]:
    """Return the presence of users, without the time of the answer."""
    found: list[Json] = (await api.data(viewer, PRESENCES, users=list(users)))["presences"]
    assert all(presence.pop("at") == api.services.app.store.clock.now_ms() for presence in found)
    return found


async def status_of(api: Api, viewer: str, user: str) -> str:
    """Return the status of a user."""
    (found,) = await presences(api, viewer, user)
    status: str = found["status"]
    return status


async def set_presence(api: Api, user: str, status: str, until: str | None = None) -> Json:
    own: Json = (await api.data(user, SET_PRESENCE, status=status, until=until))["setPresence"]
    return own


async def set_status(api: Api, user: str, **fields: Any) -> Json:
    own: Json = (await api.data(user, SET_STATUS, **fields))["setCustomStatus"]
    return own


async def own_presence(api: Api, user: str) -> Json:
    """Return the user's own presence on the first screen."""
    own: Json = (await api.data(user, READY))["ready"]["presence"]
    return own


def offline(user: str, **fields: Any) -> Json:
    """Return the presence of a user who was never there, or of a stranger."""
    return {
        "user": {"id": user, "displayName": user},
        "status": "OFFLINE",
        "isMobile": False,
        "customStatus": None,
        "activities": [],
        "lastActiveAt": None,
    } | fields
