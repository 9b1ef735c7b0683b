"""deploy/systemd: valid units that fit the server, with few rights."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from server.cli.serve import GRACE_SECONDS
from server.settings import load_settings
from tests.deployment.compose_file import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 25
"""Exposure that is accepted, in tenths: 0 is none, 100 is that of a service without any restriction."""

units = pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed (apt-get install systemd)")


def option(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def copied(unit: Path, folder: Path) -> Path:
    """Copy a unit, as an instance if it is a template, with a program that exists here."""
    copy = folder / unit.name.replace("@.", "@8001.")
    copy.write_text(re.sub(r"^ExecStart=/\S+", "ExecStart=/bin/sh", unit.read_text(), flags=re.MULTILINE))
    return copy


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    return subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, timeout=60)


def test_there_is_a_unit_for_servers_and_one_for_workers() -> None:
    assert [unit.name for unit in UNITS] == ["confab-work.service", "confab@.service"]
    commands = {unit.stem: option(unit, "ExecStart") for unit in UNITS}
    assert commands == {
        "confab-work": ["/opt/confab/bin/confab work"],
        "confab@": ["/opt/confab/bin/confab serve --port %i"],
    }


@needs_systemd
@units
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    result = run("verify", str(copied(unit, tmp_path)))
    found = [line for line in (result.stdout + result.stderr).splitlines() if "confab" in line]
    assert (result.returncode, found) == (0, [])


@needs_systemd
@units
def test_units_expose_little(unit: Path, tmp_path: Path) -> None:
    result = run("security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(copied(unit, tmp_path)))
    assert result.returncode == 0, result.stdout[-400:] + result.stderr


@units
def test_units_have_time_for_a_graceful_shutdown(unit: Path) -> None:
    (seconds,) = option(unit, "TimeoutStopSec")
    assert int(seconds) > math.ceil(load_settings(workers=True).ws_drain_seconds) + GRACE_SECONDS
    assert option(unit, "KillMode") == ["mixed"], "the Redis fallback is ended by its server"


def test_servers_may_open_all_their_connections() -> None:
    (limit,) = option(ROOT / "deploy" / "systemd" / "confab@.service", "LimitNOFILE")
    assert int(limit) > load_settings(workers=True).ws_max_connections


def test_units_allow_the_system_calls_of_limits() -> None:
    """Servers raise their limit of open files, and decoders of images lower theirs (setrlimit)."""
    for unit in UNITS:
        assert option(unit, "SystemCallFilter") == ["@system-service", "~@privileged"]
