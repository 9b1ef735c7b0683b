"""Definition of the commands `confab search …`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from server.errors import CommandError
from server.settings import Settings

app = typer.Typer(name="search", help="The index of messages: rebuild it, or print how far it is complete.")

DataDir = Annotated[Path, typer.Option(help="Folder of the embedded MongoDB and Redis.")]


@app.command()
def rebuild(data_dir: DataDir = Path(".data")) -> None:
    """Index all messages again, oldest first, and remove the old index at the end. Servers may be running.

    Searches find messages by the old index meanwhile. After Ctrl-C, servers continue more slowly; repeat the command to
    continue at full speed. If another process is indexing, this one shows its progress.
    """
    from server.cli.search.index import rebuild_index

    settings = _settings(data_dir)
    asyncio.run(rebuild_index(settings, Console(stderr=True, highlight=False, markup=False), print))


@app.command()
def status(data_dir: DataDir = Path(".data")) -> None:
    """Print how far the index is complete, and how many messages wait for it."""
    from server.cli.search.index import print_status

    asyncio.run(print_status(_settings(data_dir), print))


def _settings(data_dir: Path) -> Settings:
    from server.cli.databases import urls_of_running_dev
    from server.cli.dev import development_settings

    settings = development_settings(**urls_of_running_dev(development_settings(), data_dir, lambda _: None))
    if settings.search == "off":
        raise CommandError("CONFAB_SEARCH is off: there is no index.")
    return settings
