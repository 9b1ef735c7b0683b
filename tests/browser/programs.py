"""Programs that use the pages as people do, in Chromium (`web/tests/*.mjs`), and what they found."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from server.http.static_pages import STATIC
from tests.processes import ROOT

PROGRAMS = ROOT / "web" / "tests"

_LONGEST_SECONDS = 240.0
_CHECK = re.compile(r'^check\(\s*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a check ended: None, or what went wrong."""

    error: str | None
    milliseconds: int


def why_not() -> str | None:
    """What is missing to run such programs here, if anything."""
    for program in ("chromium", "node"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if not (ROOT / "web" / "node_modules" / "playwright-core").is_dir():
        return "playwright-core is not installed (make web)"
    if not all((STATIC / page / "index.html").is_file() for page in ("playground", "demo")):
        return "the pages have not been built (make web)"
    return None


def checks_of(program: str) -> list[str]:
    """The sentences that a program checks, in their order."""
    found = _CHECK.findall((PROGRAMS / f"{program}.mjs").read_text())
    assert found
    assert len(set(found)) == len(found)
    return found


async def run_program(program: str, url: str, pictures: Path) -> dict[str, Outcome]:
    """Runs it against the Confab at the URL. Answers each check's outcome; a program that ends without having made one has that as its
    error. Where a check fails, a picture of each page is put into the folder."""
    process = await asyncio.create_subprocess_exec(
        "node",
        str(PROGRAMS / f"{program}.mjs"),
        url,
        str(pictures),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "CHROMIUM": shutil.which("chromium") or "chromium"},
    )
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            told, complaint = await process.communicate()
        ending = f"the program ended with {process.returncode}: {complaint.decode()[-2000:]}"
    except TimeoutError:
        # Node ends its browser when told to end itself.
        process.terminate()
        told, _ = await process.communicate()
        ending = f"the program took longer than {_LONGEST_SECONDS:g} s"
    outcomes = {}
    for line in told.decode().splitlines():
        if line.startswith('{"check"'):
            made = json.loads(line)
            outcomes[made["check"]] = Outcome(made.get("error"), made["ms"])
    return {sentence: outcomes.get(sentence, Outcome(ending, 0)) for sentence in checks_of(program)}
