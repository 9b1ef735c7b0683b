"""`confab config` and the reference of settings."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from server.cli import commands
from server.settings import Settings, redact_url, variable
from server.settings.accepted import describe_accepted_values
from server.settings.reference import format_reference, list_sections

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "settings.md"
SECRET = "a secret that nobody may see in any output"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def confab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with only the given variables. Returns exit code, output and error output."""
    for name in [name for name in os.environ if name.startswith("CONFAB_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str, **variables: str) -> tuple[int, str, str]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["confab", *arguments])
        with pytest.raises(SystemExit) as caught:
            commands.main()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def row(output: str, field: str) -> str:
    return next(line for line in output.splitlines() if line.split()[:1] == [variable(field)])


def test_the_reference_in_the_documentation_is_up_to_date() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == format_reference(), "run make settings"


def test_every_setting_is_in_one_section_and_has_a_meaning() -> None:
    listed = [field for _, _, fields in list_sections() for field in fields]
    assert sorted(listed) == sorted(Settings.model_fields)
    for field, info in Settings.model_fields.items():
        assert info.description, field
        assert describe_accepted_values(field), field


def test_config_prints_values_and_their_sources(confab: Run) -> None:
    code, out, err = confab("config", CONFAB_PORT="9001", CONFAB_JWT_SECRET=SECRET, CONFAB_REDIS_PREFIX="")
    assert (code, err) == (0, "")
    assert row(out, "port").split() == ["CONFAB_PORT", "9001", "[environment]"]
    assert row(out, "host").split() == ["CONFAB_HOST", "127.0.0.1", "[default]"]
    assert row(out, "redis_prefix").split() == ["CONFAB_REDIS_PREFIX", "-", "[default]"]
    assert row(out, "introspection").split() == ["CONFAB_INTROSPECTION", "false", "[default]"]


def test_config_shows_no_secret(confab: Run, tmp_path: Path) -> None:
    secrets = {
        "CONFAB_MONGO_URL": "mongodb://user:hunter2@db/?tlsCertificateKeyFilePassword=hunter2",
        "CONFAB_REDIS_URL": "redis://:hunter2@cache:6379/0",
        "CONFAB_JWT_SECRET": SECRET,
        "CONFAB_JWT_PREVIOUS_SECRETS": json.dumps([SECRET]),
    }
    for arguments in (("config",), ("config", "--json"), ("config", "--dev")):
        code, out, err = confab(*arguments, **secrets)
        assert code == 0
        assert "hunter2" not in out + err
        assert SECRET not in out + err
    rows = json.loads(confab("config", "--json")[1])
    assert rows["CONFAB_MONGO_URL"] == {"value": "mongodb://***@db/?...", "source": "environment"}
    assert rows["CONFAB_JWT_SECRET"] == {"value": "(set, not shown)", "source": "environment"}


def test_config_names_the_file_that_a_secret_comes_from(confab: Run, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    _, out, _ = confab("config", CONFAB_JWT_SECRET_FILE=str(file))
    assert row(out, "jwt_secret").endswith("(set, not shown)  [CONFAB_JWT_SECRET_FILE]")
    assert row(out, "jwt_secret_file").endswith("(read into CONFAB_JWT_SECRET)  [environment]")


def test_config_shows_the_settings_of_confab_dev(confab: Run) -> None:
    _, out, _ = confab("config", "--dev", CONFAB_GRAPHIQL="false")
    assert row(out, "demo").endswith("true  [confab dev]")
    assert row(out, "graphiql").endswith("false  [environment]")


def test_config_reports_that_the_server_would_not_start(confab: Run) -> None:
    code, out, err = confab("config")
    assert code == 0
    assert "CONFAB_PORT" in out
    assert "confab serve would not start: No key to check tokens with" in err
    code, out, err = confab("config", CONFAB_PORT="seven")
    assert (code, out) == (2, "")
    assert "CONFAB_PORT is 'seven'" in err


def test_version(confab: Run) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert confab("--version")[:2] == (0, f"confab {version}\n")


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("mongodb://u:pass@host:1/db?x=y", "mongodb://***@host:1/db"),
        ("mongodb://u:p@ss/w?rd@host/db", "mongodb://***@host/db"),
        ("u:pass@host", "***@host"),
        ("redis://host/0?password=pass", "redis://host/0"),
        ("redis://host/0", "redis://host/0"),
    ],
)
def test_url_is_redacted_to_scheme_host_and_path(url: str, redacted: str) -> None:
    assert redact_url(url) == redacted
