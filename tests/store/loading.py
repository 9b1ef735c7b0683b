"""Stores states in Redis that consist of given records, as a load does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.base.ids import ConversationId, UserId
from store.redis.cache import Call
from store.redis.keys import Keys
from store.sessions.fields import record_of
from store.sessions.loading.loaded_channels import LoadedChannels
from store.sessions.loading.loaded_state import LoadedState
from store.sessions.records import gateway_records
from store.sessions.session import Session
from store.sessions.session_lists import SessionLists

EPOCH = "epoch"

_PEER = (Session.peer_read_seq.stored, Session.peer_delivered_seq.stored)


def state_of(user: UserId, records: Mapping[str, Mapping[str, Any]], clock: int) -> LoadedState:
    """Return the state with these records, and with their gateways."""
    lists = SessionLists()
    sessions = {ConversationId(name): _ordered(record) for name, record in records.items()}
    for conversation, record in sessions.items():
        lists.add(conversation, record)
    gateways = gateway_records(sessions, {}, lists, clock)
    for conversation, record in gateways.items():
        lists.add(conversation, record)
    return LoadedState(user, EPOCH, clock, sessions | gateways, lists)


def channels_of(records: Mapping[str, Mapping[str, Any]]) -> LoadedChannels:
    """Return the loaded sessions in channels with these records."""
    return LoadedChannels({ConversationId(name): _ordered(record) for name, record in records.items()})


def _ordered(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its fields in the order that scripts rely on."""
    peer = {name: record.get(name, 0) for name in _PEER} if not record.keys().isdisjoint(_PEER) else {}
    return record_of() | peer | dict(record)


def load_calls(keys: Keys, state: LoadedState, now_ms: int, *during: Call) -> list[Call]:
    """Return the calls of a load. during: further calls before its end."""
    key = keys.user(state.user)
    parts = (Call("load_part", key, (now_ms, "loading", "mine", 60_000, *part)) for part in state.parts(250))
    finish = Call("load_finish", key, (now_ms, "mine", *state.totals))
    return [Call("load_begin", key, (now_ms, "mine", 60_000)), *during, *parts, finish]


def channel_load_calls(keys: Keys, user: UserId, loaded: LoadedChannels, now_ms: int, *during: Call) -> list[Call]:
    """Return the calls of a load of sessions in channels. during: further calls before its end."""
    key = keys.user(user)
    parts = (Call("load_part", key, (now_ms, "channels_loading", "mine", 60_000, *part)) for part in loaded.parts(250))
    finish = Call("load_channels_finish", key, (now_ms, "mine", *loaded.totals))
    return [Call("load_channels_begin", key, (now_ms, "mine", 60_000)), *during, *parts, finish]
