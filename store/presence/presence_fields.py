"""Names of the fields of presence records in Redis and MongoDB: the only place where they are known."""

from __future__ import annotations

from collections.abc import Mapping

ALL_SERVERS = "*"
"""Stands for all servers, as on the bus."""


class CachedRecordField:
    """Fields of the hash of a user's record in Redis, with DEVICE and DEPARTED for each device."""

    VERSION = "v"
    REVISION = "r"
    """`PresenceField.REVISION` of SETTINGS. Absent: the part from MongoDB is not loaded."""
    SETTINGS = "p"
    """The setting and the custom status, as JSON."""
    SEEN = "n"
    """When others last saw the user there (ms), as far as the devices do not say it."""
    READ_AT = "l"
    """When the part from MongoDB was last loaded for a reader (ms)."""
    WATCHED_UNTIL = "w"
    """Time until which servers show the user (ms), as far as the set of servers is complete."""
    LOST_UNTIL = "x"
    """Time until which servers may show the user that the set of servers has lost (ms)."""
    DEVICE = "d:"
    """Beginning of the name of the field of a device: then its server, a colon and its id."""
    DEPARTED = "q:"
    """The same for a device as it was when the user became INVISIBLE."""


class PresenceField:
    """Fields of a row of `presences`, sharded by ID."""

    ID = "_id"
    """The user."""
    REVISION = "v"
    """Number of changes of SETTING and STATUS. Absent: none of them was ever set."""
    SETTING = "s"
    STATUS = "c"
    SEEN = "n"
    """When others last saw the user there (ms): the last departure, or becoming INVISIBLE."""


def presence_literals() -> Mapping[str, str]:
    """Return the names that scripts use for the fields of a record, with their literals."""
    names = ("VERSION", "REVISION", "SETTINGS", "SEEN", "READ_AT", "WATCHED_UNTIL", "LOST_UNTIL")
    return {name: f"'{getattr(CachedRecordField, name)}'" for name in names} | {"ALL_SERVERS": f"'{ALL_SERVERS}'"}
