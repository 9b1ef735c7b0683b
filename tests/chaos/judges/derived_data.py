"""Runs all checks of `confab check` on the deployment of a run, without repairs."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from server.cli.check import CheckOptions, check_data
from server.errors import CommandError
from server.settings import Settings
from store.messages.message_fields import MessageField
from tests.chaos.judges.history import Json

_BY_THE_SWEEPER = ("file-messages", "kept for", None)
"""The check, field and value of a file that a stored message has claimed and that is not bound to it.

If Redis loses the outbox before the binding, the sweeper binds the file when it looks at it: 24 hours after the upload.
"""

_TICKS = (": peer_read_seq", ": peer_delivered_seq")
"""Fields of cached sessions that a receipt moves. Receipts are sent after the answer, so a server that is killed may
not send one: see docs/operations/known-limits.md.
"""

_SETTLE_SECONDS = 10.0
"""Seconds for which a check reads an object with a difference again. The outboxes are empty before."""


async def check_derived_data(
    settings: Settings, *, redis_lost_data: bool, servers_were_killed: bool
) -> tuple[list[str], list[str]]:
    """Return the differences that are problems, and those that are known limits of lost data and killed servers."""
    reported: list[str] = []
    options = CheckOptions(rows_per_second=1_000_000, settle_seconds=_SETTLE_SECONDS, as_json=True)
    try:
        await check_data(settings, options, Console(file=StringIO()), reported.append)
    except CommandError as error:
        return [f"confab check: {error}"], []
    problems, known = [], []
    for check in json.loads(reported[0])["checks"]:
        name = check["name"]
        for difference in check["differences"]:
            is_known = (
                (redis_lost_data and (name, difference["field"], difference["value"]) == _BY_THE_SWEEPER)
                or (servers_were_killed and is_missing_tick(name, difference))
                or (servers_were_killed and redis_lost_data and is_behind(name, difference))
            )
            (known if is_known else problems).append(f"confab check, {name}: {_shown(difference)}")
        problems += [f"confab check, {name}: {id} was being changed" for id in check["unsettled"]]
    return problems, known


def is_missing_tick(check: str, difference: Json) -> bool:
    """Return whether a cached session only lacks a receipt of the other person."""
    is_tick = check == "cached-sessions" and difference["field"].endswith(_TICKS)
    return is_tick and int(difference["value"]) < int(difference["expected"])


def is_behind(check: str, difference: Json) -> bool:
    """Return whether a cached head lacks the last steps of a delivery.

    Its last message is earlier by less than a second, because two servers delivered it at once, each with a time of its
    own; or has no mark that there is a thread. See docs/operations/known-limits.md.
    """
    if check != "cached-heads":
        return False
    value, expected = difference["value"], difference["expected"]
    match difference["field"]:
        case "last message":
            return 0 < int(expected) - int(value) < 1_000
        case "newest message":
            return isinstance(value, dict) and value | {MessageField.HAS_THREAD: True} == expected
    return False


def _shown(difference: Json) -> str:
    return f"{difference['object']}: {difference['field']} is {difference['value']}, not {difference['expected']}"
