"""The command `confab`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from resolvers.base.errors import ConfabError
from resolvers.users.callers import CallerRole
from server.embedded import EmbeddedError
from server.errors import CommandError
from server.settings import SettingsError, check_fit_to_serve, load_settings

app = typer.Typer(
    name="confab",
    help="Confab, an instant-messaging backend behind one GraphQL API. Settings come from CONFAB_ variables.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

_DURATION = re.compile(r"(\d+)([smhd]?)\Z")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}

Host = Annotated[str | None, typer.Option(help="Address to listen on.", show_default="CONFAB_HOST or 127.0.0.1")]
Port = Annotated[int | None, typer.Option(help="Port to listen on.", show_default="CONFAB_PORT or 8000")]
DataDir = Annotated[Path, typer.Option(help="Folder of the embedded MongoDB and Redis.")]


def main() -> None:
    """Run the command line and exit: 0 done, 2 could not be done and said why, 130 interrupted."""
    try:
        code = app(prog_name="confab", standalone_mode=False)
    except (SettingsError, EmbeddedError, ConfabError, CommandError) as error:
        sys.exit(_complain(str(error)))
    except typer.TyperException as error:
        sys.exit(_complain(f"{error.format_message()} (confab --help tells more)"))
    except typer.Abort:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


@app.command()
def dev(host: Host = None, port: Port = None, data_dir: DataDir = Path(".data")) -> None:
    """Start MongoDB, Redis and the server on this machine, and print tokens to try it with. Ctrl-C stops all.

    A MongoDB or Redis of your own is used instead where CONFAB_MONGO_URL or CONFAB_REDIS_URL is set. An empty data
    folder is filled with a small demo.
    """
    from server.cli.dev import run_dev

    run_dev(data_dir, Console(highlight=False), **_given(host=host, port=port))


@app.command()
def serve(
    host: Host = None,
    port: Port = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes to serve with.")] = 1,
) -> None:
    """Serve, with MongoDB at CONFAB_MONGO_URL and Redis at CONFAB_REDIS_URL.

    Tokens are checked with CONFAB_JWT_SECRET, CONFAB_JWKS_URL or CONFAB_JWKS_FILE; the development secret is refused.
    """
    import structlog

    from server.cli.serve import bind, serve, serve_with_workers
    from server.observability.logs import configure_logging

    settings = load_settings(**_given(host=host, port=port))
    check_fit_to_serve(settings)
    if workers > 1 and settings.operations_file is not None:
        from server.http.persisted_operations import load_persisted_operations

        # Each worker reads it too; one that can't start is started again.
        load_persisted_operations(settings)
    sock = bind(settings.host, settings.port)
    configure_logging(settings)
    log = structlog.get_logger("server.cli")
    if workers > 1:
        log.info("serving", host=settings.host, port=settings.port, workers=workers)
        serve_with_workers("server.app:create_app", settings, sock, workers)
        return
    from server.app import create_app

    serve(
        create_app(settings),
        settings,
        sock,
        on_ready=lambda: log.info("serving", host=settings.host, port=settings.port, workers=1),
    )


@app.command()
def token(
    user: Annotated[str, typer.Argument(help="User id: the token's sub.")],
    role: Annotated[CallerRole, typer.Option(help="What the token allows.")] = CallerRole.USER,
    name: Annotated[str | None, typer.Option(help="Display name, for a user who has none yet.")] = None,
    ttl: Annotated[str, typer.Option(help="Good for how long: seconds, or a number with m, h or d.")] = "24h",
) -> None:
    """Print a token, signed with CONFAB_JWT_SECRET, else with the development secret."""
    from server.auth.authenticator import issue_token
    from server.cli.dev import development_settings

    settings = load_settings()
    if settings.jwks_url is not None or settings.jwks_file is not None:
        raise CommandError("Tokens are checked against a JWK set: only the owner of its private key signs them.")
    signed = issue_token(settings if settings.jwt_secret else development_settings(), user, role, name, _seconds(ttl))
    if settings.jwt_secret is None:
        _note("Signed with the development secret: good for confab dev, refused by confab serve.")
    print(signed)


@app.command()
def revoke(
    user: Annotated[str, typer.Argument(help="User id: the sub of the tokens.")], data_dir: DataDir = Path(".data")
) -> None:
    """Refuse all tokens of a user that were issued until now, and end their connections, on every server at once.

    Without CONFAB_MONGO_URL and CONFAB_REDIS_URL: on the confab dev that runs on the data folder.
    """
    import asyncio
    import time

    from server.cli.databases import of_running_dev
    from server.cli.dev import development_settings
    from server.cli.revoke import revoke_tokens

    settings = development_settings(**of_running_dev(development_settings(), data_dir, _note))
    until = asyncio.run(revoke_tokens(settings, user, time.time()))
    print(f"Tokens of {user} that were issued until {until} are refused from now on.")


@app.command()
def shard(
    apply: Annotated[bool, typer.Option("--apply", help="Carry them out, at CONFAB_MONGO_URL.")] = False,
) -> None:
    """Print what divides MongoDB's collections among shards, for its shell. With --apply: carry it out, on a mongos.

    May be repeated. Servers should be running on that mongos by then: what was stored before they did is noted first.
    """
    from server.cli.shard import print_lines, run_shard

    settings = load_settings()
    if apply:
        run_shard(settings, print)
    else:
        print_lines(settings, print)


@app.command()
def migrate(
    run: Annotated[
        bool, typer.Option("--run", help="Do what is pending, in small steps, beside servers that serve.")
    ] = False,
) -> None:
    """Tell which version the stored data has, and what is still to be brought to a newer one. At CONFAB_MONGO_URL."""
    import asyncio

    from server.cli.migrate import migrate_data

    asyncio.run(migrate_data(load_settings(), run=run, tell=print))


@app.command()
def restored() -> None:
    """Run this once after MongoDB was restored from a backup, before any server starts. At CONFAB_MONGO_URL.

    Nothing that Redis holds, and no cursor that clients hold, counts after that: clients begin anew.
    """
    import asyncio

    from server.cli.migrate import tell_restored

    asyncio.run(tell_restored(load_settings()))
    print("Nothing from before the restore counts any more: start the servers.")


@app.command()
def schema() -> None:
    """Print the GraphQL schema (SDL)."""
    from schema.sdl import print_sdl

    sys.stdout.write(print_sdl())


@app.command("import-chat")
def import_chat(
    file: Annotated[Path, typer.Argument(help="A chat log, one JSON object a line.", metavar="FILE.jsonl")],
    group: Annotated[str, typer.Option(help="Name of the group that the chat goes to.")],
    data_dir: DataDir = Path(".data"),
) -> None:
    """Replay a chat log into a group. Once more with the same file goes on where it stopped, and repeats nothing.

    Without CONFAB_MONGO_URL and CONFAB_REDIS_URL: into the confab dev that runs on the data folder; if none does,
    servers are started for the time being.
    """
    import asyncio

    from server.cli.databases import databases
    from server.cli.dev import development_settings

    if not (file.is_file() and os.access(file, os.R_OK)):
        raise CommandError(f"{file} is not a file that can be read.")
    from server.chat_import.command import run_import

    settings = development_settings()
    with databases(settings, data_dir, _note) as urls:
        asyncio.run(run_import(development_settings(**urls), file, group))


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _seconds(duration: str) -> float:
    match = _DURATION.match(duration)
    if match is None:
        raise CommandError(f"--ttl is {duration!r}, but should be seconds, or a number with m, h or d (30d).")
    return float(match[1]) * _SECONDS[match[2]]


def _note(sentence: str) -> None:
    Console(stderr=True, highlight=False, markup=False).print(sentence, style="dim", soft_wrap=True)


def _complain(sentences: str) -> int:
    Console(stderr=True, highlight=False, markup=False).print(sentences, style="red", soft_wrap=True)
    return 2


if __name__ == "__main__":
    main()
