"""Definition of the commands `confab admin …`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from server.cli.admin.text import lines_of
from server.settings import Settings

if TYPE_CHECKING:
    from store.admin.source import AdminSource, View

app = typer.Typer(
    name="admin",
    help="Show what is stored about users, conversations and the deployment. Changes nothing.",
    no_args_is_help=False,
)

AGREES, DIFFERS = 0, 1
"""Exit codes of `explain`. The others end with 0. An error message ends with 2."""

DataDir = Annotated[Path, typer.Option(help="Folder of the embedded MongoDB and Redis.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Texts = Annotated[bool, typer.Option("--texts", help="Show texts of messages and reports too.")]
UserArgument = Annotated[str, typer.Argument(help="User id (in quotes if it contains characters like |).")]
ConversationArgument = Annotated[str, typer.Argument(help="Conversation id.")]
DEFAULT_DATA_DIR = Path(".data")


@app.command()
def user(user: UserArgument, as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Show a user: profile, devices, connections, numbers of sessions, unread total, bans, erasure and jobs."""
    from store.admin.user_view import view_user

    _print(_run(data_dir, False, lambda source: view_user(source, user)), as_json)


@app.command()
def conversation(
    conversation: ConversationArgument,
    as_json: AsJson = False,
    texts: Texts = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show a conversation: members, head, what waits in the outbox, threads, pins, and of a channel its workspace."""
    from store.admin.conversation_view import view_conversation

    _print(_run(data_dir, texts, lambda source: view_conversation(source, conversation)), as_json)


@app.command()
def connections(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Show the servers that are alive and the connections of each, as Redis knows them. Reads all names of keys."""
    from store.admin.deployment_view import view_connections
    from subscriptions.presence.live_servers import SILENT_AFTER_MS

    _print(_run(data_dir, False, lambda source: view_connections(source, SILENT_AFTER_MS)), as_json)


@app.command()
def queues(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Show what waits: deliveries, pushes, events of webhooks, jobs, and messages for the index."""
    from store.admin.deployment_view import view_queues

    _print(_run(data_dir, False, view_queues), as_json)


@app.command()
def webhooks(
    webhook: Annotated[str | None, typer.Argument(help="Webhook id.", show_default="all outgoing webhooks")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show outgoing webhooks and what waits for each, or one webhook with its newest events. No secrets."""
    from store.admin.webhook_view import view_webhook, view_webhooks

    _print(
        _run(
            data_dir,
            False,
            lambda source: view_webhook(source, webhook) if webhook is not None else view_webhooks(source),
        ),
        as_json,
    )


@app.command()
def reports(
    workspace: Annotated[
        str | None, typer.Option(help="Reports of this workspace; -: of the deployment.", show_default="all")
    ] = None,
    as_json: AsJson = False,
    texts: Texts = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show open reports, the oldest first."""
    from store.admin.report_view import view_reports

    _print(_run(data_dir, texts, lambda source: view_reports(source, workspace)), as_json)


@app.command()
def explain(
    user: UserArgument,
    conversation: ConversationArgument,
    as_json: AsJson = False,
    texts: Texts = False,
    settle_seconds: Annotated[
        float, typer.Option(min=0, help="Total time after which a difference has persisted.")
    ] = 3.5,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Explain why a user's unread count in a conversation is what it is. The exit code is 1 if a count is wrong.

    Counts the messages one by one, and compares that with what is stored in MongoDB and cached in Redis.
    """
    from store.admin.unread.explanation import SETTLE_SECONDS, explain_unread

    pauses = [seconds * settle_seconds / sum(SETTLE_SECONDS) for seconds in SETTLE_SECONDS]
    view = _run(data_dir, texts, lambda source: explain_unread(source, user, conversation, pauses))
    if as_json:
        _print(view, as_json)
    else:
        for sentence in view["verdict"]:
            print(sentence)
        print()
        _print({name: value for name, value in view.items() if name not in ("verdict", "differences")}, as_json)
    raise typer.Exit(AGREES if view["agrees"] else DIFFERS)


def _run(data_dir: Path, texts: bool, make_view: Callable[[AdminSource], Awaitable[View]]) -> View:
    from server.cli.databases import urls_of_running_dev
    from server.cli.dev import development_settings
    from server.observability.logs import configure_logging

    settings = development_settings(**urls_of_running_dev(development_settings(), data_dir, _print_note))
    # Logs go to stderr, results to stdout.
    configure_logging(settings)
    return asyncio.run(read_view(settings, make_view, shows_texts=texts))


async def read_view(
    settings: Settings, make_view: Callable[[AdminSource], Awaitable[View]], *, shows_texts: bool = False
) -> View:
    """Open the databases, and return a view. Raises CommandError."""
    from server.cli.admin.opening import open_source

    async with open_source(settings, shows_texts=shows_texts) as source:
        return await make_view(source)


def _print(view: View, as_json: bool) -> None:
    if as_json:
        print(json.dumps(view, ensure_ascii=False))
        return
    for line in lines_of(view):
        print(line)


def _print_note(message: str) -> None:
    Console(stderr=True, highlight=False, markup=False).print(message, style="dim", soft_wrap=True)
