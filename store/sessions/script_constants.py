"""Constants that the Lua scripts of this package take from Python: names and lists of fields, limits, frames.

All of them are numbers, strings or functions, because a table costs time each time a script runs. Constants that the
fast path does not need come after it.
"""

from __future__ import annotations

from store.sessions.fields import FIELDS, MAX_UNREAD_MENTIONS, NAMES, SETTINGS
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

PRIORITY_WEIGHT = 1 << 42
"""Distance of two priorities in a list: more than any `write_ts`."""

MESSAGE_PATTERN = r"^(%S+) (%d+) (%d+) ([01]) (%d+) (.*)$"
"""A message as `MessageDelta.text` writes it."""

WAKE_UP_FRAME = '{"events":[[null,[["%s","",0,0]]]]}'
"""The frame that makes hubs compare a user's position with Redis, and read the log if events are missing."""

LOCK_GRANTED_FRAME = '{"granted":"%s"}'
"""The frame that notifies a server that one of its waiters has the lock now."""

MUTE_ENDED_ENTRY = '{"k":"s","r":"UNMUTE","c":%s}'
"""The log entry of mutes that ended, with the list of conversations: `SessionChanged.log_entry` writes the same."""


def fast_path_constants() -> str:
    """Return Lua text for the fast path and for everything after it: the form of records, and shared limits."""
    fixed = [field.stored for field in FIELDS if field.fixed]
    form = ",".join(f'"{name}":%.0f' for name in fixed)
    pattern = ",".join(f'"{name}":(%d+)' for name in fixed)
    peer = [Session.peer_read_seq.stored, Session.peer_delivered_seq.stored]
    finds = "\n    or ".join(f"""find(rest, '"{field.stored}":', 1, true)""" for field in FIELDS if field.lists)
    return f"""\
local LOG_LENGTH, IDLE_MS, TOUCH_INTERVAL_MS = {LOG_LENGTH}, {IDLE_MS}, {TOUCH_INTERVAL_MS}
local PRIORITY_WEIGHT = {PRIORITY_WEIGHT}
local MESSAGE_PATTERN = '{MESSAGE_PATTERN}'
local FIXED_FORM = '{{{form}'
local FIXED_PATTERN = '^{{{pattern}(.*)}}$'
local PEER_FORM = '{"".join(f',"{name}":%.0f' for name in peer)}'
local PEER_PATTERN = '^{"".join(f',"{name}":(%d+)' for name in peer)}(.*)$'
local HAS_MENTIONS, IS_MUTED = '"{Session.mentions.stored}":', '"{Session.muted.stored}":1'

-- Returns true if the rest of a record, after the fixed fields, decides about lists and counts.
local function decides_lists(rest)
  local find = string.find
  return {finds}
end
"""


def script_constants() -> str:
    """Return Lua text for the general code: the names of fields (WRITE_SEQ, ...) and lists of them, limits, frames."""
    names = "\n".join(f"local {name.upper()} = '{field.stored}'" for name, field in NAMES.items())
    fixed = [field for field in FIELDS if field.fixed]
    defaults = ", ".join(f"{field.stored} = {field.default}" for field in fixed)
    values = ", ".join(f"record.{field.stored}" for field in fixed)
    return f"""\
{names}
local FIXED_FIELDS = '{" ".join(field.stored for field in fixed)}'
local SETTINGS = '{" ".join(field.stored for field in SETTINGS)}'
local MAX_UNREAD_MENTIONS, PENDING_MS, QUEUE_MS = {MAX_UNREAD_MENTIONS}, {PENDING_MS}, {QUEUE_MS}
local WAKE_UP_FRAME = '{WAKE_UP_FRAME}'
local LOCK_GRANTED_FRAME = '{LOCK_GRANTED_FRAME}'
local MUTE_ENDED_ENTRY = '{MUTE_ENDED_ENTRY}'

local function new_record()
  return {{ {defaults} }}
end

local function encode_fixed(record)
  return string.format(FIXED_FORM, {values})
end
"""
