"""`confab import-chat --workspace`: imports chat logs into the channels of a workspace, one channel for each log.

A channel has the name of its log. Everybody in the logs is a member of the workspace, which the user `importer` owns.
Users who wrote in a channel follow it, with everything read, unless they follow as many channels as allowed.
Repeated and interrupted imports continue, as those into a group do (`command`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from resolvers.base.app import Confab
from resolvers.base.names import accept_name
from resolvers.following.channel_members import MAX_USERS, add_to_channel
from resolvers.workspaces.channel_creation import NewChannel, create_channel
from resolvers.workspaces.channel_decisions import accept_channel_name
from resolvers.workspaces.membership.joining import MOST_ADDED, add_to_workspace
from resolvers.workspaces.workspaces import NewWorkspace, create_workspace
from server.chat_import.command import START_WAIT_SECONDS, import_log, progress_bar
from server.chat_import.group import IMPORTING_CALLER, ImportedPeople
from server.chat_import.log_file import ChatFile, read_chat
from server.chat_import.plan import IMPORTER, ImportPlan, SendStep, make_plan
from server.errors import CommandError, database_error
from server.services import Services, open_services
from server.settings import UNLIMITED, Settings
from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.deployment.chat_imports import ImportStore

_SMALLEST_CHANNEL = 1


@dataclass(frozen=True, slots=True)
class ChannelLog:
    """A log, and the name of its channel."""

    name: str
    chat: ChatFile
    plan: ImportPlan


@dataclass(frozen=True, slots=True)
class WorkspaceImport:
    """Result of an import: the workspace, the channels in the order of the logs, and what this run added."""

    workspace: WorkspaceId
    channels: tuple[ConversationId, ...]
    members: int
    messages: int
    seconds: float


def read_channel_logs(paths: Sequence[Path]) -> list[ChannelLog]:
    """Read logs. Raises CommandError and InvalidInput, also if two logs have the same name."""
    logs = []
    for path in paths:
        chat = read_chat(path)
        logs.append(ChannelLog(accept_channel_name(path.stem), chat, make_plan(chat, _SMALLEST_CHANNEL)))
    names = [log.name for log in logs]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise CommandError(f"Two files are named {doubled}: each becomes the channel of its name.")
    return logs


async def run_workspace_import(settings: Settings, paths: Sequence[Path], workspace: str) -> WorkspaceImport:
    """Import logs. Prints progress and problems to stderr, and a summary to stdout. See `command.run_import`."""
    console = Console(stderr=True, highlight=False, markup=False)
    accept_name(workspace, "--workspace")
    logs = read_channel_logs(paths)
    length, reached = sum(log.chat.length for log in logs), 0
    with progress_bar(console, workspace, length) as show_progress:

        def report(done: int) -> None:
            nonlocal reached
            reached = done
            show_progress(done)

        try:
            unlimited = settings.model_copy(update=UNLIMITED)
            async with open_services(unlimited, start_wait_seconds=START_WAIT_SECONDS) as services:
                result = await import_workspace(services, logs, workspace, report)
        except BaseException as error:
            console.print(f"Stopped after {reached} of {length} lines. Repeat the command to continue.", soft_wrap=True)
            if isinstance(error, StoreError):
                raise database_error(error) from error
            raise
    _print_summary(result, logs, workspace)
    return result


async def import_workspace(
    services: Services, logs: Sequence[ChannelLog], name: str, report: Callable[[int], None]
) -> WorkspaceImport:
    """Import logs, or the missing parts of them, into the workspace of a name. `report`: number of durable lines."""
    app = services.app
    imports, began = ImportStore(app.store.mongo), time.monotonic()
    people = ImportedPeople(app, imports)
    workspace = await _open_workspace(app, imports, people, name)
    members: set[UserId] = set()
    channels, messages, earlier = list[ConversationId](), 0, 0
    for log in logs:
        channel = await _open_channel(app, workspace, log.name)
        channels.append(channel)
        progress = await imports.find_progress(channel, log.chat.digest)
        await people.ensure_users(log.plan.names_after(progress.done if progress else 0))
        await _add_members(app, workspace, list(log.plan.names))
        members |= log.plan.names.keys()
        counts = await import_log(
            services,
            channel,
            log.chat,
            log.plan,
            people,
            members=log.plan.names,
            join=_join_nothing,
            report=lambda done, before=earlier: report(before + done),  # type: ignore[misc]
        )
        await _let_writers_follow(app, channel, log.plan)
        messages += counts.messages
        earlier += log.chat.length
        report(earlier)
    return WorkspaceImport(workspace, tuple(channels), len(members), messages, time.monotonic() - began)


async def _join_nothing(_app: Confab, _user: UserId) -> None:
    """Do nothing: everybody is a member of the workspace from the start, and may write in its public channels."""


async def _open_workspace(app: Confab, imports: ImportStore, people: ImportedPeople, name: str) -> WorkspaceId:
    """Return the workspace for imports under a name. There is exactly one, also after interrupted imports."""
    workspace = await imports.find_workspace(name)
    if workspace is None:
        await people.ensure_users({})
        key = f"import {hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"
        created = (await create_workspace(app, IMPORTER, NewWorkspace(name, key=key))).info
        workspace = await imports.insert_workspace(name, created.id)
    info = await app.store.workspaces.find(workspace)
    if info is None or info.owner != IMPORTER:
        raise CommandError(f"{name} ({workspace}) was deleted, or has another owner: choose another name.")
    return workspace


async def _open_channel(app: Confab, workspace: WorkspaceId, name: str) -> ConversationId:
    """Return the channel of a name, which an earlier import may have created."""
    policy = await app.store.policies.find(workspace)
    channels = policy.channels.values() if policy is not None else ()
    found = next((channel.id for channel in channels if channel.name == name), None)
    if found is None:
        found = (await create_channel(app, IMPORTER, NewChannel(workspace, name))).head.conversation
    return found


async def _add_members(app: Confab, workspace: WorkspaceId, users: Sequence[UserId]) -> None:
    for start in range(0, len(users), MOST_ADDED):
        await add_to_workspace(app, IMPORTING_CALLER, workspace, users[start : start + MOST_ADDED])


async def _let_writers_follow(app: Confab, channel: ConversationId, plan: ImportPlan) -> None:
    """Make the users who wrote in a channel follow it, except those who follow as many channels as allowed."""
    writers = list(dict.fromkeys(step.user for step in plan.steps if isinstance(step, SendStep)))
    policy = await app.store.policies.find(workspace_of_channel(channel))
    full = set(await app.store.channel_follows.list_at_limit(policy, writers)) if policy is not None else set()
    users = [user for user in writers if user not in full]
    for start in range(0, len(users), MAX_USERS):
        await add_to_channel(app, IMPORTER, channel, users[start : start + MAX_USERS])


def _print_summary(result: WorkspaceImport, logs: Sequence[ChannelLog], name: str) -> None:
    console = Console(highlight=False, markup=False)
    total = sum(log.chat.length for log in logs)
    rows = [
        ("workspace", f"{name} ({result.workspace})"),
        ("channels", ", ".join(log.name for log in logs)),
        ("lines", f"{total}"),
        ("messages", f"{result.messages}"),
        ("people", f"{result.members}"),
        ("seconds", f"{result.seconds:.1f}"),
    ]
    for label, value in rows:
        console.print(f"{label:<9} {value}", soft_wrap=True)
    console.print(f"The workspace's owner is {IMPORTER}. For a token, run: confab token {IMPORTER}", soft_wrap=True)
