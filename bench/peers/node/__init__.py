"""The Node server: its installation and its command. Its source is in the same folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
COMMAND = [shutil.which("node") or "node", str(FOLDER / "server.mjs")]

_INSTALL_SECONDS = 300


def ensure_installed() -> str:
    """Install the server's packages with npm if necessary. Return why it cannot take part; empty if it can."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "Node.js and npm are not on PATH"
    installed, lock = FOLDER / "node_modules" / ".package-lock.json", FOLDER / "package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return ""
    print("installing the Node server's packages with npm, once", flush=True)
    try:
        done = subprocess.run(
            ["npm", "ci", "--no-progress"], cwd=FOLDER, capture_output=True, text=True, timeout=_INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"npm ci did not end within {_INSTALL_SECONDS} s"
    return "" if done.returncode == 0 else f"npm ci failed: {done.stderr.strip()[-400:]}"
