"""The activity that clients report: whether a device is in use, and the occupations of its user."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.base.checks import check_encodable, check_name, has_control_characters
from resolvers.base.errors import InvalidInput
from resolvers.base.times import check_time
from resolvers.presence.own_presence import OwnPresence, own_presence_from
from store.presence.presence_record import Activity
from store.presence.shown_presence import MAX_ACTIVITIES
from subscriptions.transport.engine import LiveConnection

LONGEST_TEXT = 128


async def report_activity(
    app: Confab, connection: LiveConnection | None, *, is_active: bool, activities: Sequence[Activity] | None
) -> OwnPresence:
    """Note whether the device of a WebSocket connection is in use, and what its user is doing.

    activities: None leaves them as they are. Counts at most once in 15 s, a change always. Raises InvalidInput.
    """
    device = connection.device if connection is not None else None
    if device is None:
        raise InvalidInput("reportActivity needs a WebSocket; over HTTP no device is connected")
    if activities is not None:
        check_activities(activities)
    record = await app.devices.report_activity(device, is_active=is_active, activities=activities)
    return own_presence_from(app, record)


def check_activities(activities: Sequence[Activity]) -> None:
    """Raise InvalidInput, with the path of the field, for activities that cannot be shown."""
    if len(activities) > MAX_ACTIVITIES:
        raise InvalidInput(f"give at most {MAX_ACTIVITIES} activities", field="activities")
    for number, activity in enumerate(activities):
        path = f"activities[{number}]"
        check_name(activity.name, f"{path}.name", LONGEST_TEXT)
        _check_text(activity.details, f"{path}.details")
        _check_text(activity.state, f"{path}.state")
        check_time(activity.started_at_ms, f"{path}.startedAt")
        check_time(activity.ends_at_ms, f"{path}.endsAt")
        starts_ms, ends_ms = activity.started_at_ms, activity.ends_at_ms
        if starts_ms is not None and ends_ms is not None and ends_ms < starts_ms:
            raise InvalidInput("endsAt must not be before startedAt", field=f"{path}.endsAt")


def _check_text(text: str | None, field: str) -> None:
    if text is None:
        return
    if len(text) > LONGEST_TEXT or has_control_characters(text):
        raise InvalidInput(f"{field} must have at most {LONGEST_TEXT} characters, no control characters", field=field)
    check_encodable(text, field)
