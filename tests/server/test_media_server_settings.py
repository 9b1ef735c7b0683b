"""Settings of the media server: all or none, and never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from server.settings import SettingsError, check_fit_to_serve, load_settings
from server.settings.media_server import livekit_api_url

SECRET = "0cBvPPRhTKSVfFZ7ZLkAGu5bMqzL1cMHGrg6o4rBUQ8"
LIVEKIT = {
    "livekit_url": "wss://livekit.example.org",
    "livekit_api_key": "APIdsa8fKXwpNnd",
    "livekit_api_secret": SECRET,
}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("CONFAB_")]:
        monkeypatch.delenv(name)


def problems(**given: object) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        load_settings(**given)
    return raised.value.problems


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"livekit_url": None}, "are set, which also needs CONFAB_LIVEKIT_URL."),
        ({"livekit_api_key": None}, "are set, which also needs CONFAB_LIVEKIT_API_KEY."),
        ({"livekit_api_secret": None}, "also needs CONFAB_LIVEKIT_API_SECRET (or CONFAB_LIVEKIT_API_SECRET_FILE)."),
        (
            {"livekit_url": None, "livekit_api_key": None},
            "CONFAB_LIVEKIT_API_SECRET is set, which also needs CONFAB_LIVEKIT_URL and CONFAB_LIVEKIT_API_KEY.",
        ),
        ({"livekit_url": "https://livekit.example.org"}, "CONFAB_LIVEKIT_URL is 'https://livekit.example.org'"),
        ({"livekit_url": "wss://"}, "CONFAB_LIVEKIT_URL is 'wss://'"),
        ({"livekit_url": "wss://user:pass@livekit.example.org"}, "CONFAB_LIVEKIT_URL is 'wss://***@livekit"),
        ({"livekit_url": "wss://livekit.example.org/?a=b"}, "CONFAB_LIVEKIT_URL is"),
        ({"livekit_api_url": "wss://livekit.example.org"}, "CONFAB_LIVEKIT_API_URL is 'wss://livekit.example.org'"),
        ({"livekit_api_url": "https://user:pass@livekit"}, "CONFAB_LIVEKIT_API_URL is 'https://***@livekit'"),
        ({"livekit_api_key": "two words"}, "CONFAB_LIVEKIT_API_KEY is 'two words'"),
        ({"livekit_api_secret": "short"}, "CONFAB_LIVEKIT_API_SECRET should be at least 32 bytes"),
        (
            {"livekit_api_secret_file": Path(__file__)},
            "CONFAB_LIVEKIT_API_SECRET and CONFAB_LIVEKIT_API_SECRET_FILE are set together",
        ),
    ],
)
def test_incomplete_and_malformed_settings_of_livekit_are_refused(changed: dict[str, object], problem: str) -> None:
    given = {name: value for name, value in (LIVEKIT | changed).items() if value is not None}
    found = problems(**given)
    assert len(found) == 1 and problem in found[0]


def test_the_secret_is_read_from_a_file_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    given = {name: value for name, value in LIVEKIT.items() if name != "livekit_api_secret"}
    settings = load_settings(**given, livekit_api_secret_file=file)
    assert settings.livekit_api_secret is not None and settings.livekit_api_secret.get_secret_value() == SECRET
    assert SECRET not in repr(settings)
    file.write_text("short")
    (problem,) = problems(**given, livekit_api_secret_file=file)
    assert problem.startswith("The file of CONFAB_LIVEKIT_API_SECRET_FILE should contain at least 32 bytes")


def test_a_secret_that_can_be_guessed_is_refused_for_serving() -> None:
    settings = load_settings(**LIVEKIT | {"livekit_api_secret": "secret" * 10}, jwt_secret=SECRET)
    with pytest.raises(SettingsError, match="can be guessed"):
        check_fit_to_serve(settings)
    check_fit_to_serve(load_settings(**LIVEKIT, jwt_secret=SECRET))


@pytest.mark.parametrize(
    ("url", "api_url", "expected"),
    [
        ("wss://livekit.example.org/", None, "https://livekit.example.org"),
        ("ws://localhost:7880", None, "http://localhost:7880"),
        ("wss://example.org/livekit/", None, "https://example.org/livekit"),
        ("wss://livekit.example.org", "http://livekit:7880/", "http://livekit:7880"),
    ],
)
def test_the_server_api_is_at_the_same_host_unless_it_is_set(url: str, api_url: str | None, expected: str) -> None:
    given = LIVEKIT | {"livekit_url": url} | ({"livekit_api_url": api_url} if api_url else {})
    assert livekit_api_url(load_settings(**given)) == expected
