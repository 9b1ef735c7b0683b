"""The table of session fields: its rules for rejoining, and the equality of its Python and Lua forms."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from resolvers.groups.group_changes import invite_members, leave_group
from resolvers.groups.group_creation import NewGroup, create_group
from resolvers.sessions.session_changes import delete_session, set_fields, set_unread
from resolvers.users.callers import Caller, CallerRole
from server.services import Services, open_services
from server.settings import Settings
from store.base.ids import ConversationId, UserId
from store.sessions import script_constants
from store.sessions.fields import FIELDS, NAMES, SETTINGS, Field, NotificationLevel, SyncReason
from store.sessions.script_constants import MUTE_ENDED_ENTRY, script_literals
from store.sessions.session import Session
from store.store import Store
from subscriptions.realtime.events.sessions import SessionChanged
from tests.waiting import TIMEOUT_SECONDS

ANNA, BEN, CARA = UserId("anna"), UserId("ben"), UserId("cara")
SAMPLES: dict[type, Any] = {bool: True, int: 7, str: "some text"}
SAMPLES_BY_NAME = {"notification_level": NotificationLevel.NONE, "suppresses_everyone": False}
NOW = 1_900_000_000_000
_numbers = itertools.count()


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_services(settings))
        for user in (ANNA, BEN, CARA):
            await opened.sign_in(Caller(user, CallerRole.USER, 2e9))
        yield opened


def sample(name: str) -> Any:
    """Return a value of a setting that differs from its default."""
    if name.endswith("_ms"):
        return NOW
    if name in SAMPLES_BY_NAME:
        return SAMPLES_BY_NAME[name]
    return SAMPLES[type(NAMES[name].default) if NAMES[name].default is not None else str]


async def settle(services: Services) -> None:
    """Wait until all messages have reached all members."""
    app = services.app
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while app.delivery.in_flight or app.bus.pending_sends:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def compare_with_mongodb(store: Store, user: UserId, group: ConversationId) -> Session:
    """Fail unless the cached session equals the one that would be loaded. Returns it."""
    cached = await store.sessions.find(user, group)
    loaded = Session(user, group, (await store.session_rows.read(user)).records[group])
    assert cached is not None
    # A loaded state has the version of the newest change, a cached one that of the newest update.
    differing = (Session.active_ts, Session.gaps, Session.group_version)
    for name, field in NAMES.items():
        if field not in differing:
            assert field.of(cached) == field.of(loaded), name
    return cached


@pytest.mark.parametrize("name", [name for name, field in NAMES.items() if field in SETTINGS])
async def test_a_setting_is_kept_when_its_user_joins_again(services: Services, name: str) -> None:
    app, value = services.app, sample(name)
    values: dict[Field[Any], Any] = {NAMES[name]: value}
    if name == "muted_until_ms":
        values[Session.muted] = True
    group = (await create_group(app, ANNA, NewGroup("G", None, (BEN, CARA), True, None))).head.conversation
    await set_fields(app, BEN, group, SyncReason.CATEGORY, values)
    await leave_group(app, BEN, group)
    await settle(services)
    left = await compare_with_mongodb(app.store, BEN, group)
    assert (left.frozen, NAMES[name].of(left)) == (True, value)
    await invite_members(app, ANNA, group, [BEN])
    await settle(services)
    joined = await compare_with_mongodb(app.store, BEN, group)
    assert (joined.frozen, NAMES[name].of(joined)) == (False, value)


async def test_a_hard_delete_resets_all_settings_and_a_soft_one_none(services: Services) -> None:
    app = services.app
    group = (await create_group(app, ANNA, NewGroup("G", None, (BEN, CARA), True, None))).head.conversation
    values = {field: sample(name) for name, field in NAMES.items() if field in SETTINGS}
    await set_fields(app, BEN, group, SyncReason.CATEGORY, values)
    await delete_session(app, BEN, group, hard=False)
    session = await compare_with_mongodb(app.store, BEN, group)
    assert {field: field.of(session) for field in SETTINGS} == values
    await delete_session(app, BEN, group, hard=True)
    session = await compare_with_mongodb(app.store, BEN, group)
    assert {field: field.of(session) for field in SETTINGS} == {field: field.default for field in SETTINGS}


async def test_deletion_and_mark_of_being_unread_end_when_the_user_joins_again(services: Services) -> None:
    app = services.app
    group = (await create_group(app, ANNA, NewGroup("G", None, (BEN, CARA), True, None))).head.conversation
    await set_unread(app, BEN, group)
    await delete_session(app, CARA, group, hard=False)
    for user in (BEN, CARA):
        await leave_group(app, user, group)
    await invite_members(app, ANNA, group, [BEN, CARA])
    await settle(services)
    for user in (BEN, CARA):
        session = await compare_with_mongodb(app.store, user, group)
        assert (session.deleted_seq, session.unread_mark, session.valid) == (None, None, True)


def test_no_two_fields_have_the_same_stored_name() -> None:
    names = [field.stored for field in FIELDS]
    assert len(set(names)) == len(names)


def test_no_quoted_word_of_a_script_is_replaced_by_a_literal() -> None:
    scripts = (Path(script_constants.__file__).parent / "scripts").glob("*.lua")
    code = "".join(re.sub(r"--.*", "", path.read_text()) for path in scripts)
    quoted = {word for text in re.findall(r"'([^'\n]*)'", code) for word in re.findall(r"\b[A-Z_]+\b", text)}
    assert quoted & script_literals().keys() == set()


def test_the_log_entry_of_ended_mutes_is_the_one_that_python_writes() -> None:
    conversations = [ConversationId("g_1"), ConversationId("p_a_b")]
    listed = orjson.dumps(conversations).decode()
    assert MUTE_ENDED_ENTRY % listed == SessionChanged.log_entry(SyncReason.UNMUTE, conversations)
