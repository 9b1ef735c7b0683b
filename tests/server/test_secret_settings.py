"""Settings that contain secrets, or name files with secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from server.settings import DEVELOPMENT_SECRET, SettingsError, check_fit_to_serve, load_settings
from tests.server.test_settings import GOOD_SECRET, problems


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("CONFAB_")]:
        monkeypatch.delenv(name)


def test_secret_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    monkeypatch.setenv("CONFAB_JWT_SECRET_FILE", str(file))
    file.write_text(f"{GOOD_SECRET}\n")
    secret = load_settings().jwt_secret
    assert secret is not None
    assert secret.get_secret_value() == GOOD_SECRET
    check_fit_to_serve(load_settings())
    file.write_text("hunter2\n")
    (problem,) = problems()
    assert problem.startswith("The file of CONFAB_JWT_SECRET_FILE should contain at least 32 bytes")
    assert "hunter2" not in problem
    file.write_text(DEVELOPMENT_SECRET)
    (problem,) = problems()
    assert problem.startswith("CONFAB_JWT_SECRET_FILE is the development secret")
    file.unlink()
    (problem,) = problems()
    assert "should be a file that exists and can be read" in problem


@pytest.mark.parametrize("value", ["hunter2", '["hunter2"]', "[7]", '"hunter2"', "{}", '["hunter2'])
def test_unusable_previous_secrets_are_refused_without_printing_them(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CONFAB_JWT_PREVIOUS_SECRETS", value)
    (problem,) = problems()
    assert problem.startswith("CONFAB_JWT_PREVIOUS_SECRETS should be a JSON list of secrets of at least 32 bytes")
    assert "hunter2" not in problem


def test_previous_secrets_are_read_from_the_lines_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secrets"
    file.write_text(f"{GOOD_SECRET}1\r\n\n  {GOOD_SECRET},2\n")
    monkeypatch.setenv("CONFAB_JWT_PREVIOUS_SECRETS_FILE", str(file))
    settings = load_settings(jwt_secret=GOOD_SECRET)
    previous = [secret.get_secret_value() for secret in settings.jwt_previous_secrets]
    assert previous == [f"{GOOD_SECRET}1", f"{GOOD_SECRET},2"]
    (problem,) = problems(jwt_previous_secrets=[GOOD_SECRET])
    assert problem.startswith("CONFAB_JWT_PREVIOUS_SECRETS and CONFAB_JWT_PREVIOUS_SECRETS_FILE are set together")
    file.write_text(f"{GOOD_SECRET}\nhunter2\n")
    (problem,) = problems()
    assert problem.startswith("The file of CONFAB_JWT_PREVIOUS_SECRETS_FILE should contain at least 32 bytes")
    assert "hunter2" not in problem
    file.write_text(DEVELOPMENT_SECRET)
    (problem,) = problems()
    assert problem.startswith("CONFAB_JWT_PREVIOUS_SECRETS_FILE contains the development secret")


def test_previous_secrets_are_no_key_to_serve_with() -> None:
    with pytest.raises(SettingsError, match="No key to check tokens with"):
        check_fit_to_serve(load_settings(jwt_previous_secrets=[GOOD_SECRET]))
    check_fit_to_serve(load_settings(jwt_previous_secrets=[GOOD_SECRET], jwks_url="https://id.example.org/jwks"))
    (problem,) = problems(jwt_secret=GOOD_SECRET, jwt_previous_secrets=[DEVELOPMENT_SECRET])
    assert problem.startswith("CONFAB_JWT_PREVIOUS_SECRETS contains the development secret")
