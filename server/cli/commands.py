"""Definition of the command `confab`.

Commands import their code when they run. The supervisor of `confab serve --workers` runs as long as its processes,
and needs neither drivers nor the application, except to check a file of persisted operations.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from resolvers.base.errors import ConfabError
from resolvers.users.callers import CallerRole
from server.cli.admin import commands as admin
from server.cli.search import commands as search
from server.embedded import EmbeddedError
from server.errors import CommandError
from server.settings import Settings, SettingsError, check_fit_to_serve, find_foreign_token_warning, load_settings
from server.settings.public_url import find_public_url_warning
from store.base.snowflakes import WORKERS

app = typer.Typer(
    name="confab",
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(search.app)
app.add_typer(admin.app)

_DURATION = re.compile(r"(\d+)([smhd]?)\Z")
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"confab {importlib.metadata.version('confab')}")
        raise typer.Exit


Host = Annotated[str | None, typer.Option(help="Address to listen on.", show_default="CONFAB_HOST or 127.0.0.1")]
Port = Annotated[int | None, typer.Option(help="Port to listen on.", show_default="CONFAB_PORT or 8000")]
DataDir = Annotated[Path, typer.Option(help="Folder of the embedded MongoDB and Redis.")]


def main() -> None:
    """Run the command line and exit: 0 for success, 2 after an error message, 130 if interrupted."""
    try:
        code = app(prog_name="confab", standalone_mode=False)
    except (SettingsError, EmbeddedError, ConfabError, CommandError) as error:
        sys.exit(_print_error(str(error)))
    except typer.TyperException as error:
        sys.exit(_print_error(f"{error.format_message()} (see confab --help)"))
    except typer.Abort:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


@app.callback()
def confab(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Confab is an instant-messaging backend behind one GraphQL API.

    Settings come from environment variables: see confab config.
    """


@app.command()
def dev(host: Host = None, port: Port = None, data_dir: DataDir = Path(".data")) -> None:
    """Start MongoDB, Redis and the server on this machine, and print tokens to try it. Ctrl-C stops everything.

    Set CONFAB_MONGO_URL or CONFAB_REDIS_URL to use your own MongoDB or Redis. An empty data folder is filled with demo
    data.
    """
    from server.cli.dev import run_dev

    run_dev(data_dir, Console(highlight=False), **_without_none(host=host, port=port))


@app.command()
def serve(
    host: Host = None,
    port: Port = None,
    workers: Annotated[int, typer.Option(min=1, max=WORKERS - 1, help="Number of server processes.")] = 1,
) -> None:
    """Run the server, with MongoDB at CONFAB_MONGO_URL and Redis at CONFAB_REDIS_URL.

    Tokens are checked with CONFAB_JWT_SECRET, CONFAB_JWT_SECRET_FILE, CONFAB_JWKS_URL or CONFAB_JWKS_FILE. The
    development secret is refused.
    """
    import structlog

    from server.cli.serve import bind, serve, serve_with_workers
    from server.observability.logs import configure_logging

    settings = load_settings(**_without_none(host=host, port=port))
    check_fit_to_serve(settings)
    _print_warnings(settings)
    if workers > 1 and settings.operations_file is not None:
        from server.http.persisted_operations import load_persisted_operations

        # Checked here, so that the error is that of the command.
        load_persisted_operations(settings)
    sock = bind(settings.host, settings.port)
    configure_logging(settings)
    log = structlog.get_logger("server.cli")
    warning = find_public_url_warning(settings)
    if warning is not None:
        log.warning("public_url_not_set", reason=warning)

    def on_ready() -> None:
        log.info("server_started", host=settings.host, port=settings.port, workers=workers)

    if workers > 1:
        serve_with_workers("server.app:create_app", settings, sock, workers, on_ready=on_ready)
        return
    from server.app import create_app

    serve(create_app(settings), settings, sock, on_ready=on_ready)


@app.command()
def work() -> None:
    """Send pushes, and events to webhooks, in a process without HTTP. Several of them share the work.

    Servers do this too, unless CONFAB_WORKERS is false. MongoDB is at CONFAB_MONGO_URL, Redis at CONFAB_REDIS_URL.
    """
    from server.cli.work import run_worker
    from server.observability.logs import configure_logging

    settings = load_settings(workers=True)
    configure_logging(settings)
    run_worker(settings)


@app.command()
def token(
    user: Annotated[str, typer.Argument(help="User id (in quotes if it contains characters like |).")],
    role: Annotated[CallerRole, typer.Option(help="Role of the token.")] = CallerRole.USER,
    name: Annotated[str | None, typer.Option(help="Display name, if the user has none yet.")] = None,
    ttl: Annotated[
        str | None,
        typer.Option(help="Lifetime: seconds, or a number with m, h or d.", show_default="24h, of a bot's token 365d"),
    ] = None,
    bot: Annotated[bool, typer.Option("--bot", help="Make the user a bot.")] = False,
    data_dir: DataDir = Path(".data"),
) -> None:
    """Print a token, signed with CONFAB_JWT_SECRET or, if it is not set, with the development secret.

    --bot writes to the databases: those of CONFAB_MONGO_URL and CONFAB_REDIS_URL, or those of the confab dev on the
    data folder.
    """
    from server.cli.tokens import DAY_SECONDS, YEAR_SECONDS, make_token

    usual_ttl = YEAR_SECONDS if bot else DAY_SECONDS
    seconds = usual_ttl if ttl is None else _parse_duration(ttl)
    print(make_token(user, role, name, seconds, _print_note, bot_data_dir=data_dir if bot else None))


@app.command()
def revoke(
    user: Annotated[str, typer.Argument(help="User id (in quotes if it contains characters like |).")],
    data_dir: DataDir = Path(".data"),
) -> None:
    """Revoke all tokens of a user that were issued until now, and close their connections on all servers.

    Without CONFAB_MONGO_URL and CONFAB_REDIS_URL, the databases of the confab dev on the data folder are used.
    """
    import asyncio
    import time

    from server.cli.databases import urls_of_running_dev
    from server.cli.dev import development_settings
    from server.cli.revoke import revoke_tokens

    settings = development_settings(**urls_of_running_dev(development_settings(), data_dir, _print_note))
    until = asyncio.run(revoke_tokens(settings, user, time.time()))
    print(f"Tokens of {user} that were issued until {until} are revoked.")


@app.command("push-keys")
def push_keys() -> None:
    """Make a key pair for Web Push, and print the settings that use it. Nothing is stored."""
    from server.cli.push_keys import print_push_keys

    print_push_keys(print)


@app.command()
def shard(
    apply: Annotated[bool, typer.Option("--apply", help="Run the commands at CONFAB_MONGO_URL.")] = False,
) -> None:
    """Print MongoDB shell commands that shard the collections. With --apply, run them on a mongos.

    May be repeated. Start servers on that mongos first: --apply then registers the messages stored before.
    """
    from server.cli.shard import print_commands, run_shard

    settings = load_settings()
    if apply:
        run_shard(settings, print)
    else:
        print_commands(settings, print)


@app.command()
def migrate(
    run: Annotated[
        bool, typer.Option("--run", help="Run pending migrations in small steps. Servers may be running.")
    ] = False,
) -> None:
    """Print the version of the data at CONFAB_MONGO_URL, and the progress of each migration."""
    import asyncio

    from server.cli.migrate import migrate_data

    asyncio.run(migrate_data(load_settings(), run=run, report=print))


@app.command()
def restored() -> None:
    """Run this once after restoring the MongoDB at CONFAB_MONGO_URL from a backup, before any server starts.

    It makes the contents of Redis and all cursors of clients invalid. Clients load their state again.
    """
    import asyncio

    from server.cli.migrate import mark_restored

    asyncio.run(mark_restored(load_settings()))
    print("Cached state and cursors from before the restore are invalid now. Start the servers.")


@app.command()
def check(
    only: Annotated[str | None, typer.Option(help="Names of checks, separated by commas.", show_default="all")] = None,
    conversation: Annotated[str | None, typer.Option(help="Check this conversation alone.")] = None,
    user: Annotated[str | None, typer.Option(help="Check this user alone.")] = None,
    workspace: Annotated[str | None, typer.Option(help="Check this workspace alone.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Derive differing data again from the records.")] = False,
    rows_per_second: Annotated[int, typer.Option(min=1, help="Rows of MongoDB read per second, at most.")] = 5_000,
    settle_seconds: Annotated[
        float, typer.Option(min=0, help="Time for which a difference must last to be reported.")
    ] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data_dir: DataDir = Path(".data"),
) -> None:
    """Compare derived data with the records that it follows from. Servers may be running.

    The exit code is 0 if all agree or were repaired, 1 if there are differences, 2 if not everything was checked.
    Without CONFAB_MONGO_URL and CONFAB_REDIS_URL, the databases of the confab dev on the data folder are used.
    """
    import asyncio

    from server.cli.check import CheckOptions, check_data
    from server.cli.databases import urls_of_running_dev
    from server.cli.dev import development_settings
    from server.observability.logs import configure_logging
    from store.checking.check import Objects

    named = {Objects.CONVERSATION: conversation, Objects.USER: user, Objects.WORKSPACE: workspace}
    objects = [(kind, name) for kind, name in named.items() if name is not None]
    if len(objects) > 1:
        raise CommandError("Give one of --conversation, --user and --workspace.")
    options = CheckOptions(
        only=only.split(",") if only is not None else (),
        object=objects[0] if objects else None,
        repairs=repair,
        rows_per_second=rows_per_second,
        settle_seconds=settle_seconds,
        as_json=as_json,
    )
    settings = development_settings(**urls_of_running_dev(development_settings(), data_dir, _print_note))
    # Logs go to stderr, results to stdout.
    configure_logging(settings)
    console = Console(stderr=True, highlight=False, markup=False)
    code = asyncio.run(check_data(settings, options, console, print))
    raise typer.Exit(code)


@app.command()
def config(
    development: Annotated[bool, typer.Option("--dev", help="Print the settings of confab dev.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print the meaning of all settings instead, in Markdown.")
    ] = False,
) -> None:
    """Print the settings of confab serve, and where each comes from. Secrets and passwords are not shown.

    Starts nothing. The exit code is 2 if a setting is wrong.
    """
    from server.cli.config import print_settings
    from server.cli.dev import development_settings
    from server.settings.reference import format_reference

    if reference:
        sys.stdout.write(format_reference())
        return
    settings = development_settings() if development else load_settings()
    print_settings(settings, Console(highlight=False, markup=False, soft_wrap=True), as_json=as_json)
    if not development:
        try:
            check_fit_to_serve(settings)
        except SettingsError as error:
            _print_note(f"confab serve would not start: {error}")
    _print_warnings(settings)


@app.command()
def schema() -> None:
    """Print the GraphQL schema (SDL)."""
    from schema.sdl import print_sdl

    sys.stdout.write(print_sdl())


@app.command("import-chat")
def import_chat(
    files: Annotated[
        list[Path], typer.Argument(help="Chat logs with one JSON object per line.", metavar="FILE.jsonl…")
    ],
    group: Annotated[str | None, typer.Option(help="Name of the group to import one log into.")] = None,
    workspace: Annotated[
        str | None, typer.Option(help="Name of the workspace to import into: each log becomes a channel.")
    ] = None,
    data_dir: DataDir = Path(".data"),
) -> None:
    """Import chat logs. Repeat the command to continue an import that stopped; nothing is duplicated.

    Without CONFAB_MONGO_URL and CONFAB_REDIS_URL, the databases of the confab dev on the data folder are used. If none
    is running, database servers are started for the duration of the import.
    """
    import asyncio

    from server.cli.databases import check_databases, databases
    from server.cli.dev import development_settings

    if (group is None) == (workspace is None):
        raise CommandError("Give --group, or --workspace.")
    if group is not None and len(files) > 1:
        raise CommandError("Only one file can be imported into a group. With --workspace, each becomes a channel.")
    for file in files:
        if not (file.is_file() and os.access(file, os.R_OK)):
            raise CommandError(f"{file} is not a readable file.")
    from server.chat_import.command import START_WAIT_SECONDS, run_import
    from server.chat_import.workspace import run_workspace_import

    settings = development_settings()
    with databases(settings, data_dir, _print_note) as urls:
        unlimited = development_settings(**urls)
        asyncio.run(check_databases(unlimited, START_WAIT_SECONDS))
        if workspace is not None:
            asyncio.run(run_workspace_import(unlimited, files, workspace))
        elif group is not None:
            asyncio.run(run_import(unlimited, files[0], group))


def _without_none(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _parse_duration(duration: str) -> float:
    match = _DURATION.match(duration)
    if match is None:
        raise CommandError(f"--ttl is {duration!r}, but should be seconds, or a number with m, h or d (30d).")
    return float(match[1]) * _UNIT_SECONDS[match[2]]


def _print_note(message: str) -> None:
    Console(stderr=True, highlight=False, markup=False).print(message, style="dim", soft_wrap=True)


def _print_warnings(settings: Settings) -> None:
    warning = find_foreign_token_warning(settings)
    if warning is not None:
        message = f"Warning: {warning}"
        Console(stderr=True, highlight=False, markup=False).print(message, style="yellow", soft_wrap=True)


def _print_error(message: str) -> int:
    Console(stderr=True, highlight=False, markup=False).print(message, style="red", soft_wrap=True)
    return 2


if __name__ == "__main__":
    main()
