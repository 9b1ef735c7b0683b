"""docker-compose.yml speaks of settings that exist, and hands out no secret."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.settings import Settings, load_settings, variable

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return parsed


def test_every_confab_variable_is_a_setting() -> None:
    text = (ROOT / "docker-compose.yml").read_text() + (ROOT / "Dockerfile").read_text()
    named = set(re.findall(r"\bCONFAB_[A-Z_]+", text))
    assert "CONFAB_MONGO_URL" in named
    assert named <= {variable(field) for field in Settings.model_fields}


def test_the_server_gets_settings_that_are_accepted(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    environment = compose["services"]["server"]["environment"]
    for name, value in environment.items():
        if not value.startswith("${"):
            monkeypatch.setenv(name, value)
    settings = load_settings()
    mongo, redis = (re.sub(r".*://([^:/]+).*", r"\1", url) for url in (settings.mongo_url, settings.redis_url))
    assert {mongo, redis} == compose["services"]["server"]["depends_on"].keys()


def test_the_secret_has_to_be_given(compose: dict[str, Any]) -> None:
    assert compose["services"]["server"]["environment"]["CONFAB_JWT_SECRET"].startswith("${CONFAB_JWT_SECRET:?")


def test_mongodb_runs_as_the_replica_set_that_clients_ask_for(compose: dict[str, Any]) -> None:
    mongo = compose["services"]["mongo"]
    name = mongo["command"][mongo["command"].index("--replSet") + 1]
    assert f"replicaSet={name}" in compose["services"]["server"]["environment"]["CONFAB_MONGO_URL"]
    assert f'_id: "{name}"' in mongo["healthcheck"]["test"][-1]


def test_the_image_gets_every_package_and_what_lies_beside_the_code() -> None:
    """An editable install finds everything; what is installed from a wheel is only what pyproject.toml names."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {name.replace(".", "/") for name in setuptools["packages"]}
    data = setuptools["package-data"]
    shipped = {path for name in packages for path in (ROOT / name).glob("*.py")}
    shipped |= {path for name, globs in data.items() for pattern in globs for path in (ROOT / name).glob(pattern)}
    tops = {name.partition("/")[0] for name in packages}
    present = {path for top in tops for path in (ROOT / top).rglob("*") if path.is_file()}
    left_out = {path for path in present - shipped if "__pycache__" not in path.parts and "static" not in path.parts}
    assert not left_out
