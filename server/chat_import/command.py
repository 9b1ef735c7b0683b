"""`confab import-chat`: a chat log replayed into a group, as if its people had used the API.

The group is the one of its name that the user `importer` owns; it is made with the first log imported under that name.
How far a log has come is kept in MongoDB. It lags behind a little: what was sent past it is recognised by reading the
group's messages, and what was under way when an import was killed is finished first. So a log that is imported once more
goes on where it stopped, whenever and however that was, and repeats nothing. Messages carry the time of the import.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resolvers.base.checks import LONGEST_CONTENT, check_name
from server.chat_import.group import ImportedPeople, open_group
from server.chat_import.log_file import ChatFile, read_chat
from server.chat_import.plan import IMPORTER, ImportPlan, SendStep, make_plan
from server.chat_import.runner import ImportCounts, ImportRunner
from server.errors import CommandError
from server.services import Services, open_services
from server.settings import UNLIMITED, Settings
from store.base.errors import StoreError
from store.base.ids import ConversationId, partition_of
from store.deployment.chat_imports import ImportStore

_PAGE = 1_000
_LAST_SEQ = 1 << 53
_SWEEPS = 3


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """An import that is through. `counts` is what this run added; it took `seconds`, 0 where all had been there already."""

    group: ConversationId
    plan: ImportPlan
    counts: ImportCounts = field(default_factory=ImportCounts)
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """Messages of the log, whichever run sent them."""
        return sum(isinstance(step, SendStep) for step in self.plan.steps)


async def run_import(settings: Settings, path: Path, group: str) -> ImportSummary:
    """Imports a log and tells about it on the terminal: progress and trouble on stderr, the summary on stdout.

    Raises CommandError and ConfabError, and says how far it came. When cancelled, what is under way is finished first.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    check_name(group, "--group")
    chat = read_chat(path)
    plan = make_plan(chat)
    reached = 0

    with _progress_bar(console, path.name, chat.length) as show:

        def tell(done: int) -> None:
            nonlocal reached
            reached = done
            show(done)

        try:
            async with open_services(settings.model_copy(update=UNLIMITED)) as services:
                summary = await import_chat(services, chat, plan, group, tell)
        except StoreError as error:
            _say_stopped(console, reached, chat)
            raise CommandError(f"MongoDB or Redis does not answer: {error}") from error
        except BaseException:
            _say_stopped(console, reached, chat)
            raise
    _print_summary(summary, path, group)
    return summary


async def import_chat(
    services: Services, chat: ChatFile, plan: ImportPlan, name: str, tell: Callable[[int], None]
) -> ImportSummary:
    """Brings a log into the group of a name, or what is missing of it. `tell` hears how many lines are durable.

    Raises CommandError, ConfabError, StoreError: whatever was sent stays, and the next import goes on from there.
    """
    app = services.app
    imports = ImportStore(app.store.mongo)
    began = time.monotonic()
    known = await imports.find_group(name)
    before = await imports.find_progress(known, chat.digest) if known else None
    if known and before and before.done >= chat.length:
        tell(chat.length)
        return ImportSummary(known, plan)
    people = ImportedPeople(app, imports)
    await people.make(plan.names_after(before.done if before else 0))
    group, members = await open_group(app, imports, name, plan.starters)
    head = await app.store.conversations.find(group)
    progress = await imports.insert_progress(group, chat.digest, head.seq if head else 0)
    if before:
        await _finish_left_over(services, group)
    replay = ImportRunner(
        app,
        group,
        chat.digest,
        members=members,
        done=progress.done,
        stored=await _stored_keys(services, group, progress.from_seq),
        rename=people.rename,
        save=partial(imports.update_progress, group, chat.digest),
        tell=tell,
    )
    await replay.run(plan.steps, chat.length)
    return ImportSummary(group, plan, replay.counts, time.monotonic() - began)


async def _finish_left_over(services: Services, group: ConversationId) -> None:
    """Makes durable what an import that was killed had put into the outbox."""
    partition = partition_of(group)
    for _ in range(_SWEEPS):
        if not await services.housekeeper.sweep(range(partition, partition + 1), 0):
            return


async def _stored_keys(services: Services, group: ConversationId, after: int) -> set[str]:
    """The idempotency keys of a group's messages after a seq."""
    keys: set[str] = set()
    while True:
        ranges = [(after + 1, _LAST_SEQ)]
        page = await services.app.store.messages.list_between(group, ranges, _PAGE, newest_first=False)
        keys.update(message.key for message in page if message.key)
        if len(page) < _PAGE:
            return keys
        after = page[-1].seq


@contextmanager
def _progress_bar(console: Console, name: str, length: int) -> Iterator[Callable[[int], None]]:
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("lines"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=length)
        yield lambda done: progress.update(task, completed=done)


def _say_stopped(console: Console, reached: int, chat: ChatFile) -> None:
    console.print(
        f"Stopped after {reached} of {chat.length} lines. The same command goes on from there.", soft_wrap=True
    )


def _print_summary(summary: ImportSummary, path: Path, group: str) -> None:
    console = Console(highlight=False, markup=False)
    plan, counts = summary.plan, summary.counts
    where = f"{group} ({summary.group})"
    if not summary.seconds:
        console.print(f"Nothing to do: all of {path} is in {where} already.", soft_wrap=True)
        return
    rate = f"{counts.messages / summary.seconds:.0f} a second"
    earlier = summary.messages - counts.messages
    rows = [
        ("group", where),
        ("messages", f"{counts.messages}, {rate}" + (f"; {earlier} more had been sent before" if earlier else "")),
        ("people", f"{len(plan.names)}, {len(plan.starters)} of them from the start"),
        ("joins", f"{counts.joins}"),
        ("renames", f"{counts.renames}"),
        ("skipped", f"{plan.skipped} without text"),
        ("cut", f"{plan.cut} to {LONGEST_CONTENT} characters"),
        ("seconds", f"{summary.seconds:.1f}"),
    ]
    for label, value in rows:
        console.print(f"{label:<9} {value}", soft_wrap=True)
    console.print(f"Its owner is {IMPORTER}: confab token {IMPORTER}", soft_wrap=True)
