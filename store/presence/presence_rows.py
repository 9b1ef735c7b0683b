"""The part of presence records that MongoDB has: one row per user, with what must outlast Redis (ADR 80)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from store.base.ids import UserId
from store.mongo.client import Mongo
from store.mongo.collections import PRESENCES
from store.mongo.writes import Update, Write
from store.presence.presence_fields import PresenceField as F
from store.presence.presence_record import CustomStatus, Setting
from store.presence.record_codec import decode_setting, decode_status, encode_setting, encode_status

NEVER_SET = Setting()


@dataclass(frozen=True, slots=True)
class PresenceRow:
    """The row of a user.

    Attributes:
        setting: What the user has set.
        status: The custom status.
        seen_ms: When others last saw the user there; None: never.
        revision: Number of changes of the setting and the custom status.
    """

    setting: Setting = NEVER_SET
    status: CustomStatus | None = None
    seen_ms: int | None = None
    revision: int = 0


class PresenceRows:
    """Reads and changes the rows. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find(self, users: Collection[UserId]) -> dict[UserId, PresenceRow]:
        """Return the rows of users; an empty one for a user without a row. One round trip."""
        rows = await self._mongo.find(PRESENCES, {F.ID: {"$in": list(users)}})
        found = {row[F.ID]: _row_from(row) for row in rows}
        return {user: found.get(user, PresenceRow()) for user in users}

    async def replace(self, user: UserId, before: PresenceRow, after: PresenceRow) -> PresenceRow | None:
        """Change the setting and the custom status of a user. Return the row as it is stored.

        None: another call has changed the row since it was read, so nothing was stored. One round trip.
        """
        revision = before.revision + 1
        fields: dict[str, Any] = {F.REVISION: revision, F.SETTING: encode_setting(after.setting)}
        update: dict[str, Any] = {"$set": fields}
        if after.status is not None:
            fields[F.STATUS] = encode_status(after.status)
        else:
            update["$unset"] = {F.STATUS: ""}
        if after.seen_ms is not None:
            update["$max"] = {F.SEEN: after.seen_ms}
        unchanged = {F.ID: user, F.REVISION: before.revision or {"$exists": False}}
        statement = Update(unchanged, update, upsert=not before.revision)
        (outcome,) = await self._mongo.write([Write.updates(PRESENCES, [statement], may_collide=True)])
        return replace(after, revision=revision) if outcome.touched else None

    async def raise_seen(self, seen_ms: Mapping[UserId, int]) -> None:
        """Store when others last saw users there. Nothing is stored for users who were seen later. One round trip."""
        if not seen_ms:
            return
        updates = [Update({F.ID: user}, {"$max": {F.SEEN: at_ms}}, upsert=True) for user, at_ms in seen_ms.items()]
        (outcome,) = await self._mongo.write([Write.updates(PRESENCES, updates, may_collide=True)])
        if outcome.duplicates:
            # Another server has just created these rows.
            again = [updates[place]._replace(upsert=False) for place in outcome.duplicates]
            await self._mongo.write([Write.updates(PRESENCES, again)])


def _row_from(row: Mapping[str, Any]) -> PresenceRow:
    return PresenceRow(
        decode_setting(row.get(F.SETTING, {})),
        decode_status(row.get(F.STATUS)),
        row.get(F.SEEN),
        row.get(F.REVISION, 0),
    )
