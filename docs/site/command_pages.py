"""The page about the command `confab`, written from what `--help` of each of its commands says."""

from __future__ import annotations

import re
import subprocess
import sys

from docs.site.documents import ROOT

_INTRODUCTION = """# Commands

`confab --help` and `confab COMMAND --help` print the same. After `make run` the command is `.venv/bin/confab`.
[Settings](../settings.md) come from environment variables; [operations](../operations.md) says when each command is
needed.
"""


def command_page() -> str:
    """Return the page, from the command's definition."""
    arguments = ["-m", "typer", "server.cli.commands", "utils", "docs", "--name", "confab"]
    printed = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # The commands begin with the first heading of the second level. Before them is a list of all.
    _, _, commands = printed.partition("\n## ")
    commands = re.sub(r"^\* `--help`.*\n", "", f"## {commands}", flags=re.MULTILINE)
    commands = re.sub(r"\*\*Options\*\*:\n\n(?!\*)", "", commands)
    return f"{_INTRODUCTION}\n{commands}"
