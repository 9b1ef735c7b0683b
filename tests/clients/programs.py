"""Programs that run the client guide's code, as a frontend's build and Node.js would."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "clients"
HERE = Path(__file__).parent
PACKAGES = ROOT / "bench" / "node_modules"
WEB = ROOT / "web"
VITE = WEB / "node_modules" / "vite" / "bin" / "vite.js"
LIMIT = 900.0
"""Time limit of a program, in seconds."""


def missing() -> str | None:
    """Return the missing requirement of the programs, or None."""
    node = shutil.which("node")
    if node is None:
        return "needs Node.js"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").partition(".")[0]) < 20:
        return f"needs Node.js 20, found {version}"
    wanted = json.loads((ROOT / "bench" / "package.json").read_text())["dependencies"]
    if any(not (PACKAGES / name / "package.json").is_file() for name in wanted):
        return "needs the packages of bench/package.json: (cd bench && npm install)"
    return None


def build_package(folder: Path) -> Path:
    """Build the core of @confab/client into a folder and return the module."""
    command = ["node", str(VITE), "build", "--config", "client/vite.config.ts", "--outDir", str(folder)]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "index.js"


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The result of a program: its status, its output, and the files of the guide it loaded."""

    status: int
    output: str
    loaded: frozenset[str]


class Workshop:
    """A copy of the guide's files next to the packages they import."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(
            GUIDE, folder / "docs" / "clients", ignore=shutil.ignore_patterns("__pycache__", "__generated__")
        )
        (folder / "schema").mkdir()
        shutil.copy(ROOT / "schema" / "schema.graphql", folder / "schema")
        shutil.copytree(ROOT / "web" / "types", folder / "web" / "types")
        (folder / "programs").mkdir()
        for program in HERE.glob("*.mjs"):
            shutil.copy(program, folder / "programs")
        (folder / "node_modules").symlink_to(PACKAGES)
        (folder / "package.json").write_text('{"type": "module"}')

    async def start(
        self, program: str, url: str, secret: str, environment: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        """Start `tests/clients/<program>.mjs` for a server. The caller ends it."""
        coverage = {"NODE_V8_COVERAGE": str(self._coverage(program))}
        return await asyncio.create_subprocess_exec(
            "node",
            f"programs/{program}.mjs",
            cwd=self._folder,
            env=os.environ | {"CONFAB_URL": url, "CONFAB_SECRET": secret} | coverage | (environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    async def run(self, program: str, url: str, secret: str) -> ProgramResult:
        """Run `tests/clients/<program>.mjs` against a server. Raises TimeoutError."""
        process = await self.start(program, url, secret)
        try:
            async with asyncio.timeout(LIMIT):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return ProgramResult(process.returncode, output.decode(), self._loaded(self._coverage(program)))

    def _coverage(self, program: str) -> Path:
        return self._folder / f"coverage-{program}"

    def _loaded(self, coverage: Path) -> frozenset[str]:
        guide = str((self._folder / "docs" / "clients").resolve())
        urls = {
            script["url"] for report in coverage.glob("*.json") for script in json.loads(report.read_bytes())["result"]
        }
        paths = (unquote(urlsplit(url).path) for url in urls)
        return frozenset(os.path.relpath(path, guide) for path in paths if path.startswith(guide))
