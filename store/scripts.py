"""Reads the Lua scripts of all packages of the store, each with the shared files that it includes.

A script is a file `store/<package>/scripts/<name>.lua`. A file whose name begins with `_` is shared: its text is put
before the text of each script that includes it. Lua text that is generated in Python is shared in the same way: see
`_GENERATED`.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from store.clocks.clock_constants import clock_literals
from store.conversations.lua_fields import lua_literals
from store.presence.presence_fields import presence_literals
from store.redis.calls import Script
from store.sessions.script_constants import record_functions, script_literals
from store.voice.voice_state import voice_literals
from store.workspaces.workspace_fields import workspace_literals

LITERALS: Mapping[str, Mapping[str, str]] = {
    "clocks": clock_literals(),
    "conversations": lua_literals(),
    "presence": presence_literals(),
    "sessions": script_literals(),
    "voice": voice_literals(),
    "workspaces": workspace_literals(),
}
"""Names that the scripts of a package use for stored field names and other constants.

They are replaced by their literals when scripts are read: a local variable would cost time at each call.
"""

_FILES = {path.stem: path for path in Path(__file__).parent.glob("*/scripts/*.lua")}

_SESSIONS = ("_channels", "_lists", "_sessions")
_USER = ("_record_functions", "_user", "_records", *_SESSIONS)
_CHANGES = ("_membership_changes", "_changes")
_CLOCK = ("_clock",)
_CLOCK_APPEND = (*_CLOCK, "_clock_append")
_VOICE = (*_CLOCK_APPEND, "_voice")
_CONVERSATION = ("_conversation",)
_PRESENCE = ("_presence",)
_WATCHERS = ("_watchers",)
_WORKSPACE = ("_workspace",)

_INCLUDES: Mapping[str, tuple[str, ...]] = {
    # store/sessions
    "apply": (*_USER, *_CHANGES),
    "attach": _USER,
    "detach": ("_user",),
    "fan_out": ("_whole_slot", "_record_functions", "_user", "_records", "_append", "_general_functions"),
    "get_sessions": _USER,
    "list_categories": _USER,
    "list_changed": _USER,
    "list_changed_channels": _USER,
    "get_totals": _USER,
    "list_followed": _USER,
    "list_names": _USER,
    "list_page": _USER,
    "list_searched": _USER,
    "list_undelivered": _USER,
    "list_unread": _USER,
    "load_begin": _USER,
    "load_channels_begin": _USER,
    "load_channels_finish": (*_USER, *_CHANGES),
    "load_finish": (*_USER, *_CHANGES),
    "load_part": _USER,
    "lock": _USER,
    "read_log": _USER,
    "read_state": _USER,
    "unlock": ("_user",),
    # store/clocks
    "clock_append": _CLOCK_APPEND,
    "clock_attach": _CLOCK,
    "clock_read": _CLOCK,
    "clock_read_changes": _CLOCK,
    "clock_read_log": _CLOCK,
    # store/conversations
    "announce_reactions": _CONVERSATION,
    "change_group": _CONVERSATION,
    "note_mention_all": (),
    "set_newest_message": _CONVERSATION,
    "head_drop": _CONVERSATION,
    "head_load_begin": _CONVERSATION,
    "head_load_finish": _CONVERSATION,
    "raise_floor": _CONVERSATION,
    "raise_head_versions": ("_whole_slot",),
    "read_membership": (),
    "reserve": _CONVERSATION,
    "reserve_reply": _CONVERSATION,
    "mark_parent_message": _CONVERSATION,
    "revise_newest_message": _CONVERSATION,
    "set_pin_count": _CONVERSATION,
    "claim_window": (),
    "take_typing_window": (),
    "take_window": (),
    "end_typing": (),
    "list_watchers": _WATCHERS,
    "renew_watchers": _WATCHERS,
    "watch": _WATCHERS,
    # store/presence
    "change_presence": _PRESENCE,
    "load_presence": _PRESENCE,
    "remove_ended_devices": _PRESENCE,
    "report_server": (),
    "unwatch_presence": _PRESENCE,
    "watch_presence": _PRESENCE,
    # store/workspaces
    "load_policy_version": _WORKSPACE,
    "raise_policy_version": _WORKSPACE,
    # store/presence
    "count_online": (),
    # store/voice
    "voice_attach": _VOICE,
    "voice_change": _VOICE,
    "voice_claim": (),
    "voice_note_device": (),
    "voice_join": _VOICE,
    "voice_read": _VOICE,
    "voice_restore": _VOICE,
    # store/push
    "push_claim_quiet": (),
    "push_note": (),
    "push_put": (),
    "push_settle": (),
    "push_take": (),
    "push_touch": (),
    # store/messages, store/redis, store/users
    "announce_revision": (),
    "claim_key": (),
    "list_waiting": (),
    "put_revised_record": (),
    "release_key": (),
    "count_rate": (),
}
"""Each script with the texts that it includes, in this order."""

_CLUSTER_GUARD = ("_whole_slot", "_guard")
"""Put before every script on a Redis Cluster, except those of `_MANY_SLOTS`."""

_MANY_SLOTS = {"fan_out", "raise_head_versions"}
"""Scripts on keys of several slots. They look for themselves whether a slot is on the node."""

_MANY_SLOTS_HEADER = "#!lua flags=allow-cross-slot-keys\n"


@functools.cache
def read_scripts(for_cluster: bool = False) -> Mapping[str, Script]:
    """Return all scripts by name. Later calls return the same scripts."""
    scripts = {}
    for name, includes in _INCLUDES.items():
        guard = _CLUSTER_GUARD if for_cluster and name not in _MANY_SLOTS else ()
        parts = [*includes, name]
        if not for_cluster:
            parts = ["_one_node" if part == "_whole_slot" else part for part in parts]
        source = "".join(map(_text, guard)) + _nested([_text(part) for part in parts])
        if name in _MANY_SLOTS:
            source = _MANY_SLOTS_HEADER + source
        scripts[name] = Script(name, source, hashlib.sha1(source.encode()).hexdigest())
    return scripts


def _nested(parts: Sequence[str]) -> str:
    """Return Lua parts that run one after the other, each within a function of its own that sees those before it.

    A script creates its functions at each call. To each variable outside that a function uses, Lua goes through all
    such variables of the enclosing function, one by one. With all parts in one function that takes most of the time of
    a short script.
    """
    return "return (function()\n".join(parts) + "end)()\n" * (len(parts) - 1)


def _text(name: str) -> str:
    if name in _GENERATED:
        return _GENERATED[name]()
    path = _FILES[name]
    return _with_literals(path.read_text(), path.parents[1].name)


def _with_literals(text: str, package: str) -> str:
    literals = LITERALS.get(package)
    return re.sub(r"\b[A-Z][A-Z_]*\b", lambda word: literals.get(word[0], word[0]), text) if literals else text


def _general_functions() -> str:
    """Return a Lua function that creates the general code for changes, and returns its function `apply_all`."""
    *parts, last = (*_SESSIONS, *_CHANGES)
    body = _nested([*map(_text, parts), _text(last) + "return apply_all\n"])
    return f"local function general_functions()\n{body}end\n"


_GENERATED: Mapping[str, Callable[[], str]] = {
    "_record_functions": lambda: _with_literals(record_functions(), "sessions"),
    "_general_functions": _general_functions,
}
"""Functions that generate Lua text, by the name that `_INCLUDES` uses."""
