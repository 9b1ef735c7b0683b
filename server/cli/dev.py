"""`confab dev`: everything one needs to try Confab, in one process and its two database servers."""

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
from server.cli.serve import bind, serve
from server.embedded import EmbeddedError, EmbeddedServers
from server.settings import DEVELOPMENT_SECRET, Settings, load_settings

DEMO_USERS = ("alice", "bob", "carol")
TOKEN_DAYS = 30

_EASY = {"log_format": "console", "introspection": True, "graphiql": True, "demo": True}
_KEYS = {"jwt_secret", "jwks_url", "jwks_file"}


def development_settings(**overrides: Any) -> Settings:
    """The environment's settings with what makes a first run easy where it says nothing. Raises SettingsError."""
    overrides = {"development": True, **overrides}
    found = load_settings(**overrides)
    if not found.model_fields_set & _KEYS:
        overrides["jwt_secret"] = DEVELOPMENT_SECRET
    for field, easy in _EASY.items():
        if field not in found.model_fields_set:
            overrides[field] = easy
    return load_settings(**overrides)


def run_dev(data_dir: Path, console: Console, **overrides: Any) -> None:
    """Start what is missing, say how to use it, serve until Ctrl-C, stop everything.

    Raises SettingsError, EmbeddedError or CommandError, each with what is wrong and what to do.
    """
    began = time.monotonic()

    def tell(sentence: str) -> None:
        told_at = f"{time.monotonic() - began:5.1f} s  "
        console.print(Text.assemble((told_at, "dim"), sentence), soft_wrap=True)

    settings = development_settings(**overrides)
    # A terminal that is closed should stop us as Ctrl-C does; not so under nohup, which has it ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _pass_on_as_sigterm)
    with ExitStack() as stack:
        sock = stack.enter_context(bind(settings.host, settings.port))
        check: Callable[[], None] = _nothing
        missing = missing_databases(settings)
        if missing:
            servers = EmbeddedServers(
                data_dir, mongo="mongo_url" in missing, redis="redis_url" in missing, on_progress=tell
            )
            stack.enter_context(servers)
            check = partial(_check, servers, tell)
            settings = development_settings(**overrides, **embedded_urls(servers, missing))
        tell("Starting the server")
        # Imported late: it takes a second, in which nothing would be seen to happen.
        from server.app import create_app
        from server.demo.seed import seed_demo
        from server.observability.logs import configure_logging

        configure_logging(settings)
        if "mongo_url" in missing and asyncio.run(seed_demo(settings)):
            tell("Filled the empty database with a small demo")
        app = create_app(settings)
        serve(app, settings, sock, on_ready=lambda: _introduce(settings, console, tell), check=check)
        tell("Stopping")
    tell("Stopped")


def _introduce(settings: Settings, console: Console, tell: Callable[[str], None]) -> None:
    from server.auth.authenticator import issue_token
    from server.demo.sign_in import issues_tokens

    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host
    address = f"{f'[{host}]' if ':' in host else host}:{settings.port}"
    tell("Ready")

    def say(text: str = "", style: str = "") -> None:
        # As it is: what people copy must not be broken into lines, or taken for markup.
        console.print(Text(text, style), soft_wrap=True)

    say()
    if settings.demo:
        say(f"  Chat         http://{address}/demo", "bold")
    if settings.graphiql:
        say(f"  Playground   http://{address}/graphql", "bold")
    say(f"  GraphQL      http://{address}/graphql (POST), ws://{address}/graphql (graphql-transport-ws)")
    say(f"  Health       http://{address}/healthz, http://{address}/readyz")
    say()
    if settings.jwt_secret is None:
        say("  Tokens are checked against the JWK set that was given: ask its owner for one.")
    else:
        say(f"  Tokens, good for {TOKEN_DAYS} days:")
        for user in DEMO_USERS:
            token = issue_token(settings, user, name=user.capitalize(), ttl_seconds=TOKEN_DAYS * 86_400.0)
            say(f"  {user}")
            say(token, "cyan")
        say()
        if issues_tokens(settings):
            say("  In the browser one click signs in. In a shell, after TOKEN=…, try")
        else:
            say("  Paste one into the playground's token field, or in a shell, after TOKEN=…, try")
        say(
            f"    curl http://{address}/graphql -H 'content-type: application/json' "
            """-H "authorization: Bearer $TOKEN" -d '{"query": "{ me { id displayName } }"}'"""
        )
    say()
    say("  Ctrl-C stops everything.")
    say()


def _check(servers: EmbeddedServers, tell: Callable[[str], None]) -> None:
    try:
        servers.check()
    except EmbeddedError:
        # Winding up takes seconds without a database; the reason then follows as the last word.
        tell("The databases cannot go on: stopping")
        raise


def _pass_on_as_sigterm(_number: int, _frame: FrameType | None) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _nothing() -> None:
    return
