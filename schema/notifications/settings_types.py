"""The GraphQL types of notification settings."""

from __future__ import annotations

import strawberry

from resolvers.notifications.settings import SettingsChange, format_time
from schema.compiler import reads
from store.notifications.notification_settings import NotificationSettings
from store.sessions.fields import NotificationLevel

strawberry.enum(NotificationLevel)


@strawberry.type(
    name="NotificationSettings",
    description="A push is not sent for what is already read, muted, silent, from a blocked sender, or shown on a "
    "device in use (delaySeconds: how long to wait for that). What is true when it is sent counts, not when the "
    "message came. One notification per conversation: the next replaces it, and reading removes it. Payload: {title, "
    "body, conversationId, badge, tag}; tag identifies the conversation; badge is attention.unread + "
    "attention.mentions. keywords notify like a mention. doNotDisturb: from and to as HH:MM in timeZone (IANA); "
    '"" switches it off.',
)
class NotificationSettingsType:
    record: strawberry.Private[NotificationSettings]
    level: NotificationLevel = reads("record.level")
    time_zone: str = reads("record.time_zone")
    delay_seconds: int = reads("record.delay_seconds")
    show_preview: bool = reads("record.shows_preview")
    keywords: list[str] = reads("record.keywords")

    @strawberry.field
    def do_not_disturb_from(self) -> str | None:
        return format_time(self.record.dnd_from)

    @strawberry.field
    def do_not_disturb_to(self) -> str | None:
        return format_time(self.record.dnd_to)


@strawberry.input
class NotificationSettingsInput:
    level: NotificationLevel | None = strawberry.field(
        default=None, description="Of conversations and workspaces without a level of their own. ALL at first."
    )
    do_not_disturb_from: str | None = strawberry.field(
        default=None,
        description="Together with doNotDisturbTo, from which it must differ. An earlier doNotDisturbTo is that of "
        'the next day. "" switches both off.',
    )
    do_not_disturb_to: str | None = None
    time_zone: str | None = None
    delay_seconds: int | None = strawberry.field(default=None, description="0 to 3600; 10 at first.")
    show_preview: bool | None = None
    keywords: list[str] | None = strawberry.field(
        default=None,
        description="At most 100 of 1 to 64 characters. Case and diacritics are ignored: of those that are the same, "
        "the first stays.",
    )

    def to_change(self) -> SettingsChange:
        """Return the change: null leaves a setting as it is."""
        return SettingsChange(
            self.level,
            self.do_not_disturb_from,
            self.do_not_disturb_to,
            self.time_zone,
            self.delay_seconds,
            self.show_preview,
            self.keywords,
        )
