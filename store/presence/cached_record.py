"""A presence record as the fields of its hash in Redis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from store.base.ids import UserId
from store.presence.presence_fields import CachedRecordField as F
from store.presence.presence_record import DevicePresence, PresenceRecord
from store.presence.presence_rows import PresenceRow
from store.presence.record_codec import (
    decode_device,
    decode_setting,
    decode_status,
    encode_device,
    encode_setting,
    encode_status,
)


class CachedRecord(NamedTuple):
    """The record of a user in Redis.

    Attributes:
        record: The record, as far as it is there.
        is_complete: The part from MongoDB is there.
        read_at_ms: When that part was last loaded for a reader; None: never.
    """

    record: PresenceRecord
    is_complete: bool
    read_at_ms: int | None

    def complete_with(self, other: CachedRecord) -> PresenceRecord:
        """Return the record, with the part from MongoDB of another one if it is missing."""
        if self.is_complete:
            return self.record
        return replace(self.record, setting=other.record.setting, custom_status=other.record.custom_status)


def record_from(user: UserId, answer: Sequence[bytes]) -> CachedRecord:
    """Return a record by the answer to HGETALL."""
    fields = {name.decode(): value for name, value in zip(answer[::2], answer[1::2], strict=True)}
    devices: dict[str, list[DevicePresence]] = {F.DEVICE: [], F.DEPARTED: []}
    for name, value in fields.items():
        found = devices.get(name[:2])
        if found is not None:
            server, _, device = name[2:].partition(":")
            found.append(decode_device(server, device, orjson.loads(value)))
    settings = orjson.loads(fields.get(F.SETTINGS, b"{}"))
    record = PresenceRecord(
        user,
        tuple(devices[F.DEVICE]),
        decode_setting(settings.get("s", {})),
        decode_status(settings.get("c")),
        tuple(devices[F.DEPARTED]),
        _number(fields, F.SEEN),
        _number(fields, F.VERSION) or 0,
    )
    return CachedRecord(record, F.REVISION in fields, _number(fields, F.READ_AT))


def row_args(row: PresenceRow) -> tuple[Any, ...]:
    """Return the arguments of `load_presence` for a row."""
    form = {"s": encode_setting(row.setting), "c": encode_status(row.status)}
    return row.revision, orjson.dumps(form), "" if row.seen_ms is None else row.seen_ms


def device_field(server: str, device: str) -> str:
    """Return the name of the field of a device."""
    return f"{F.DEVICE}{server}:{device}"


def departed_field(device: DevicePresence) -> str:
    """Return the name of the field of a device as it was when the user became INVISIBLE."""
    return f"{F.DEPARTED}{device.server}:{device.device}"


def fields_of(devices: Iterable[DevicePresence], departed: Iterable[DevicePresence] = ()) -> list[str | bytes]:
    """Return names and values of the fields of devices, one after the other."""
    fields: list[str | bytes] = []
    for device in devices:
        fields += device_field(device.server, device.device), orjson.dumps(encode_device(device))
    for device in departed:
        fields += departed_field(device), orjson.dumps(encode_device(device))
    return fields


def _number(fields: Mapping[str, bytes], name: str) -> int | None:
    value = fields.get(name)
    return None if value is None else int(value)
