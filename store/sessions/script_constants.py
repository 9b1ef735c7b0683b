"""Constants that the Lua scripts of this package take from Python: names and lists of fields, limits, frames.

`store/scripts.py` replaces their names by literals, because a local variable costs time at each call.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.base.ids import THREADS
from store.sessions.fields import (
    FIELDS,
    FOLLOWED,
    MAX_UNREAD_MENTIONS,
    MENTIONED,
    NAMES,
    PRIORITY_WEIGHT,
    SETTINGS,
    THREADS_OF,
)
from store.sessions.session import Session

LOG_LENGTH = 1_200
"""Events in a user's log, roughly."""

IDLE_MS = 24 * 3600 * 1000
"""Time after its last use at which a cached state is dropped."""

TOUCH_INTERVAL_MS = 3600 * 1000
"""Interval at which a cached state that is read or changed gets more time to live."""

PENDING_MS = 60_000
"""Longest time that changes wait for the end of a load."""

QUEUE_MS = 15_000
"""A queue for a lock is dropped if no waiter has joined it for this time."""

MAX_WAITING = 256
"""Conversations whose messages may wait to be applied to a user's sessions."""

MAX_WAITING_LENGTH = 500
"""Length of the text that notes the messages waiting for one session. Mentions make it longer."""

NOT_CACHED, APPENDED, ELSEWHERE = range(3)
"""Short answers of the script `fan_out` for one user."""

MESSAGE_PATTERN = r"^(%S+) (%d+) (%d+) ([01]) (%d+) (.*)$"
"""A message as `MessageDelta.text` writes it."""

WAKE_UP_FRAME = '{"events":[[null,[[%s,"",0,0]]]]}'
"""The frame that makes hubs compare a user's position with Redis, and read the log if events are missing."""

LOCK_GRANTED_FRAME = '{"granted":"%s"}'
"""The frame that notifies a server that one of its waiters has the lock now."""

MUTE_ENDED_ENTRY = '{"k":"s","r":"UNMUTE","c":%s}'
"""The log entry of mutes that ended, with the list of conversations: `SessionChanged.log_entry` writes the same."""

MEMBERSHIP_ENTRY = '{"k":"s","r":"MEMBERSHIP","c":%s}'
"""The log entry of sessions whose membership changed, in the same form."""


def script_literals() -> dict[str, str]:
    """Return the Lua literal of each constant: names of fields (WRITE_SEQ, ...), limits, forms, frames."""
    fixed = [field.stored for field in FIELDS if field.fixed]
    peer = [Session.peer_read_seq.stored, Session.peer_delivered_seq.stored]
    numbers = {
        "LOG_LENGTH": LOG_LENGTH,
        "IDLE_MS": IDLE_MS,
        "TOUCH_INTERVAL_MS": TOUCH_INTERVAL_MS,
        "PENDING_MS": PENDING_MS,
        "QUEUE_MS": QUEUE_MS,
        "PRIORITY_WEIGHT": PRIORITY_WEIGHT,
        "MAX_UNREAD_MENTIONS": MAX_UNREAD_MENTIONS,
        "MAX_WAITING": MAX_WAITING,
        "MAX_WAITING_LENGTH": MAX_WAITING_LENGTH,
        "NOT_CACHED": NOT_CACHED,
        "APPENDED": APPENDED,
        "ELSEWHERE": ELSEWHERE,
    }
    texts = {name.upper(): field.stored for name, field in NAMES.items()} | {
        "FOLLOWED": FOLLOWED,
        "MENTIONED": MENTIONED,
        "THREADS": THREADS,
        "THREADS_OF": THREADS_OF,
        "SETTINGS": " ".join(field.stored for field in SETTINGS),
        "FIXED_FIELDS": " ".join(fixed),
        "FIXED_FORM": "{" + ",".join(f'"{name}":%.0f' for name in fixed),
        "PEER_FORM": "".join(f',"{name}":%.0f' for name in peer),
        "WRITE_SEQ_PATTERN": f'^{{"{Session.write_seq.stored}":(%d+),',
        "COUNTS_PATTERN": _counts_pattern(fixed),
        "HAS_UNREAD_MARK": f'"{Session.unread_mark.stored}":',
        "IS_FORMER_MEMBER": f'"{Session.last_readable_seq.stored}":',
        "IS_IN_SUB_BIZ": f'"{Session.sub_biz.stored}":',
        "MESSAGE_PATTERN": MESSAGE_PATTERN,
        "WAITING_PATTERN": "^(%d+) (%d+) (%d+) (%d+) ([01]) (%d+) (%d+) (%d+)(.*)$",
        "WAKE_UP_FRAME": WAKE_UP_FRAME,
        "LOCK_GRANTED_FRAME": LOCK_GRANTED_FRAME,
        "MUTE_ENDED_ENTRY": MUTE_ENDED_ENTRY,
        "MEMBERSHIP_ENTRY": MEMBERSHIP_ENTRY,
    }
    return {name: str(value) for name, value in numbers.items()} | {name: f"'{text}'" for name, text in texts.items()}


def _counts_pattern(fixed: Sequence[str]) -> str:
    """Return the pattern of a record that captures `n` and `read_n`."""
    captured = (Session.n.stored, Session.read_n.stored)
    last = max(fixed.index(name) for name in captured)
    return "^{" + ",".join(f'"{name}":{"(%d+)" if name in captured else "%d+"}' for name in fixed[: last + 1])


def record_functions() -> str:
    """Return the Lua functions that make a record, and that encode what comes first in it."""
    fixed = [field for field in FIELDS if field.fixed]
    defaults = ", ".join(f"{field.stored} = {field.default}" for field in fixed)
    values = ", ".join(f"record.{field.stored}" for field in fixed)
    return f"""\
local function new_record()
  return {{ {defaults} }}
end

local function encode_fixed(record)
  return string.format(FIXED_FORM, {values})
end
"""
