"""`confab dev`: runs Confab with embedded databases on this machine, for trying it and for development."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from server.cli.databases import embedded_urls, missing_databases
from server.cli.push_keys import development_push_settings
from server.cli.serve import bind, serve
from server.embedded import EmbeddedError, EmbeddedServers
from server.settings import DEVELOPMENT_SECRET, Settings, find_foreign_token_warning, load_settings
from server.settings.public_url import find_public_url_warning, listens_everywhere

DEMO_USERS = ("alice", "bob", "carol")
TOKEN_DAYS = 30

_DEVELOPMENT_DEFAULTS = {
    "log_format": "console",
    "introspection": True,
    "graphiql": True,
    "demo": True,
    "document_cpu_percent": 0,
    "anonymous_cpu_percent": 0,
}
_KEY_FIELDS = {"jwt_secret", "jwks_url", "jwks_file"}


def development_settings(**overrides: Any) -> Settings:
    """Return the settings of the environment, with development defaults for what is not set. Raises SettingsError."""
    overrides = {"development": True, **overrides}
    found = load_settings(**overrides)
    if not found.model_fields_set & _KEY_FIELDS:
        overrides["jwt_secret"] = DEVELOPMENT_SECRET
    for field, value in _DEVELOPMENT_DEFAULTS.items():
        if field not in found.model_fields_set:
            overrides[field] = value
    return load_settings(**overrides)


def run_dev(data_dir: Path, console: Console, **overrides: Any) -> None:
    """Start missing databases, print how to use Confab, serve until Ctrl-C, and stop everything.

    Raises SettingsError, EmbeddedError or CommandError. Each message says what is wrong and what to do.
    """
    began = time.monotonic()

    def report(message: str) -> None:
        elapsed = f"{time.monotonic() - began:5.1f} s  "
        console.print(Text.assemble((elapsed, "dim"), message), soft_wrap=True)

    settings = development_settings(**overrides)
    # Closing the terminal stops the process like Ctrl-C, except under nohup, which ignores SIGHUP.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _send_sigterm)
    with ExitStack() as stack:
        sock = stack.enter_context(bind(settings.host, settings.port))
        check: Callable[[], None] = _check_nothing
        missing = missing_databases(settings)
        if missing:
            servers = EmbeddedServers(
                data_dir, mongo="mongo_url" in missing, redis="redis_url" in missing, on_progress=report
            )
            stack.enter_context(servers)
            check = partial(_check_servers, servers, report)
            overrides |= embedded_urls(servers, missing)
        settings = development_settings(**overrides, **development_push_settings(settings, data_dir))
        report("Starting the server")
        # Imported late, because it takes a second without any output.
        from server.app import create_app
        from server.demo.seed import seed_demo
        from server.observability.logs import configure_logging

        configure_logging(settings)
        if "mongo_url" in missing and asyncio.run(seed_demo(settings)):
            report("Filled the empty database with demo data")
        app = create_app(settings)
        serve(app, settings, sock, on_ready=lambda: _print_instructions(settings, console, report), check=check)
        report("Stopping")
    report("Stopped")


def _print_instructions(settings: Settings, console: Console, report: Callable[[str], None]) -> None:
    from server.auth.authenticator import issue_token
    from server.demo.sign_in import issues_tokens

    host = "127.0.0.1" if listens_everywhere(settings) else settings.host
    address = f"{f'[{host}]' if ':' in host else host}:{settings.port}"
    report("Ready")

    def write(text: str = "", style: str = "") -> None:
        # Without line breaks and markup, so that people can copy the text.
        console.print(Text(text, style), soft_wrap=True)

    write()
    if settings.demo:
        write(f"  Chat         http://{address}/demo", "bold")
    if settings.graphiql:
        write(f"  Playground   http://{address}/graphql", "bold")
    write(f"  GraphQL      http://{address}/graphql (POST), ws://{address}/graphql (graphql-transport-ws)")
    write(f"  Health       http://{address}/healthz, http://{address}/readyz")
    write()
    if settings.jwt_secret is None:
        warning = find_foreign_token_warning(settings)
        if warning is not None:
            write(f"  Warning: {warning}", "yellow")
        write("  Tokens are checked with a JWK set: get a token from the owner of its private key.")
    else:
        write(f"  Tokens, valid for {TOKEN_DAYS} days:")
        for user in DEMO_USERS:
            token = issue_token(settings, user, name=user.capitalize(), ttl_seconds=TOKEN_DAYS * 86_400.0)
            write(f"  {user}")
            write(token, "cyan")
        write()
        if issues_tokens(settings):
            write("  In the browser you sign in with one click. In a shell, set TOKEN=… and try")
        else:
            write("  Paste a token into the playground's token field. In a shell, set TOKEN=… and try")
        write(
            f"    curl http://{address}/graphql -H 'content-type: application/json' "
            """-H "authorization: Bearer $TOKEN" -d '{"query": "{ me { id displayName } }"}'"""
        )
    write()
    # On an address of its own, the server knows the address at which clients reach it.
    unreachable = find_public_url_warning(settings) if listens_everywhere(settings) else None
    if unreachable is not None:
        write(f"  Warning: {unreachable}", "yellow")
        write()
    write("  Ctrl-C stops everything.")
    write()


def _check_servers(servers: EmbeddedServers, report: Callable[[str], None]) -> None:
    try:
        servers.check()
    except EmbeddedError:
        # Stopping takes seconds without a database. The reason is printed at the end.
        report("A database server failed: stopping")
        raise


def _send_sigterm(_number: int, _frame: FrameType | None) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _check_nothing() -> None:
    return
