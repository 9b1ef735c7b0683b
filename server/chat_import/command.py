"""`confab import-chat`: imports a chat log into a group through the use cases of the API.

The user `importer` owns the group. The first import under a name creates it. The progress of each log is stored in
MongoDB, with some delay: messages sent after it are recognised by their idempotency keys in the group's messages, and
in-flight messages of a killed import are finished first. So an import that is repeated continues where it stopped, and
duplicates nothing. Messages have the time of the import.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resolvers.base.app import Confab
from resolvers.base.checks import LONGEST_CONTENT
from resolvers.base.names import accept_name
from server.chat_import.group import ImportedPeople, invite_member, open_group
from server.chat_import.log_file import ChatFile, read_chat
from server.chat_import.plan import IMPORTER, ImportPlan, SendStep, make_plan
from server.chat_import.runner import ImportCounts, ImportRunner
from server.errors import database_error
from server.services import Services, open_services
from server.settings import UNLIMITED, Settings
from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId, partition_of
from store.deployment.chat_imports import ImportStore

_PAGE = 1_000
_LAST_SEQ = 1 << 53
_MAX_SWEEPS = 3
START_WAIT_SECONDS = 10.0
"""Time to wait for the databases before the import fails."""


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Result of an import. `counts` is what this run added in `seconds`; 0 seconds if there was nothing to do."""

    group: ConversationId
    plan: ImportPlan
    counts: ImportCounts = field(default_factory=ImportCounts)
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """Number of messages of the log, sent by any run."""
        return sum(isinstance(step, SendStep) for step in self.plan.steps)


async def run_import(settings: Settings, path: Path, group: str) -> ImportSummary:
    """Import a log. Prints progress and problems to stderr, and a summary to stdout.

    If cancelled, running steps are finished first. Raises CommandError and ConfabError after printing the progress.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    accept_name(group, "--group")
    chat = read_chat(path)
    plan = make_plan(chat)
    reached = 0

    with progress_bar(console, path.name, chat.length) as show_progress:

        def report(done: int) -> None:
            nonlocal reached
            reached = done
            show_progress(done)

        try:
            unlimited = settings.model_copy(update=UNLIMITED)
            async with open_services(unlimited, start_wait_seconds=START_WAIT_SECONDS) as services:
                summary = await import_chat(services, chat, plan, group, report)
        except StoreError as error:
            _print_stopped(console, reached, chat)
            raise database_error(error) from error
        except BaseException:
            _print_stopped(console, reached, chat)
            raise
    _print_summary(summary, path, group)
    return summary


async def import_chat(
    services: Services, chat: ChatFile, plan: ImportPlan, name: str, report: Callable[[int], None]
) -> ImportSummary:
    """Import a log, or the missing part of it, into the group of a name.

    `report` is called with the number of durable lines. Raises CommandError, ConfabError and StoreError. Sent messages
    remain, and the next import continues from there.
    """
    app = services.app
    imports = ImportStore(app.store.mongo)
    began = time.monotonic()
    existing = await imports.find_group(name)
    earlier = await imports.find_progress(existing, chat.digest) if existing else None
    if existing and earlier and earlier.done >= chat.length:
        report(chat.length)
        return ImportSummary(existing, plan)
    people = ImportedPeople(app, imports)
    await people.ensure_users(plan.names_after(earlier.done if earlier else 0))
    group, members = await open_group(app, imports, name, plan.starters)
    invite = partial(invite_member, group)
    counts = await import_log(services, group, chat, plan, people, members=members, join=invite, report=report)
    return ImportSummary(group, plan, counts, time.monotonic() - began)


async def import_log(
    services: Services,
    conversation: ConversationId,
    chat: ChatFile,
    plan: ImportPlan,
    people: ImportedPeople,
    *,
    members: Collection[UserId],
    join: Callable[[Confab, UserId], Awaitable[object]],
    report: Callable[[int], None],
) -> ImportCounts:
    """Import a log, or the missing part of it, into a group or channel.

    members: users who may write there. join: makes a user a member. report: see `import_chat`.
    """
    app = services.app
    imports = ImportStore(app.store.mongo)
    earlier = await imports.find_progress(conversation, chat.digest)
    head = await app.store.conversations.find(conversation)
    progress = await imports.insert_progress(conversation, chat.digest, head.seq if head else 0)
    if earlier:
        await _finish_in_flight(services, conversation)
    runner = ImportRunner(
        app,
        conversation,
        chat.digest,
        members=members,
        done=progress.done,
        stored=await _stored_keys(services, conversation, progress.from_seq),
        join=join,
        rename=people.rename,
        save=partial(imports.update_progress, conversation, chat.digest),
        report=report,
    )
    await runner.run(plan.steps, chat.length)
    return runner.counts


async def _finish_in_flight(services: Services, group: ConversationId) -> None:
    """Store the messages that a killed import left in the outbox."""
    partition = partition_of(group)
    for _ in range(_MAX_SWEEPS):
        if not await services.housekeeper.sweep(range(partition, partition + 1), 0):
            return


async def _stored_keys(services: Services, group: ConversationId, after: int) -> set[str]:
    """Return the idempotency keys of a group's messages after a seq."""
    keys: set[str] = set()
    while True:
        ranges = [(after + 1, _LAST_SEQ)]
        page = await services.app.store.messages.list_between(group, ranges, _PAGE, newest_first=False)
        keys.update(message.key for message in page if message.key)
        if len(page) < _PAGE:
            return keys
        after = page[-1].seq


@contextmanager
def progress_bar(console: Console, name: str, length: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal. Yields the function that moves it."""
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("lines"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=length)
        yield lambda done: progress.update(task, completed=done)


def _print_stopped(console: Console, reached: int, chat: ChatFile) -> None:
    console.print(f"Stopped after {reached} of {chat.length} lines. Repeat the command to continue.", soft_wrap=True)


def _print_summary(summary: ImportSummary, path: Path, group: str) -> None:
    console = Console(highlight=False, markup=False)
    plan, counts = summary.plan, summary.counts
    target = f"{group} ({summary.group})"
    if not summary.seconds:
        console.print(f"Nothing to do: all of {path} is already in {target}.", soft_wrap=True)
        return
    rate = f"{counts.messages / summary.seconds:.0f} per second"
    earlier = summary.messages - counts.messages
    rows = [
        ("group", target),
        ("messages", f"{counts.messages}, {rate}" + (f"; {earlier} were sent by earlier runs" if earlier else "")),
        ("people", f"{len(plan.names)}, {len(plan.starters)} of them from the start"),
        ("joins", f"{counts.joins}"),
        ("renames", f"{counts.renames}"),
        ("skipped", f"{plan.skipped} without text"),
        ("cut", f"{plan.cut} to {LONGEST_CONTENT} characters"),
        ("seconds", f"{summary.seconds:.1f}"),
    ]
    for label, value in rows:
        console.print(f"{label:<9} {value}", soft_wrap=True)
    console.print(f"The group's owner is {IMPORTER}. For a token, run: confab token {IMPORTER}", soft_wrap=True)
