"""Settings of the services of pushes: complete or absent, and never shown. The keys of Web Push."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from rich.console import Console

from resolvers.push.services.apns import PRODUCTION, SANDBOX
from resolvers.push.services.vapid import VapidKey
from server.cli import commands
from server.cli.config import print_settings
from server.cli.push_keys import development_push_settings
from server.errors import CommandError
from server.push_services import _apns_options
from server.settings import SettingsError, load_settings
from tests.push.services.keys import SERVICE_ACCOUNT, apns_key, pem, service_account

KEY = VapidKey.generate()
WEB_PUSH = {"vapid_private_key": KEY.private_text, "vapid_contact": "mailto:admin@example.org"}
APNS = {
    "apns_key": apns_key(),
    "apns_key_id": "ABC123DEFG",
    "apns_team_id": "DEF123GHIJ",
    "apns_topic": "org.example.chat",
}
FCM = {"fcm_credentials": service_account()}
SECRETS = {
    "vapid_private_key": KEY.private_text,
    "apns_key": APNS["apns_key"],
    "fcm_credentials": FCM["fcm_credentials"],
}
ANY_FILE = Path(__file__)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("CONFAB_")]:
        monkeypatch.delenv(name)


def problems(**given: object) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        load_settings(**given)
    return raised.value.problems


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (WEB_PUSH | {"vapid_contact": None}, "CONFAB_VAPID_PRIVATE_KEY is set, which also needs CONFAB_VAPID_CONTACT."),
        (
            WEB_PUSH | {"vapid_private_key": None},
            "CONFAB_VAPID_CONTACT is set, which also needs CONFAB_VAPID_PRIVATE_KEY (or CONFAB_VAPID_PRIVATE_KEY_FILE)",
        ),
        (
            WEB_PUSH | {"vapid_contact": "admin@example.org"},
            "CONFAB_VAPID_CONTACT is '***@example.org', but should be a URL such as",
        ),
        (WEB_PUSH | {"vapid_contact": "mailto:admin@localhost"}, "CONFAB_VAPID_CONTACT is"),
        (WEB_PUSH | {"vapid_contact": "http://example.org"}, "CONFAB_VAPID_CONTACT is 'http://example.org'"),
        (WEB_PUSH | {"vapid_contact": "https://"}, "CONFAB_VAPID_CONTACT is"),
        (WEB_PUSH | {"vapid_private_key": "short"}, "CONFAB_VAPID_PRIVATE_KEY should be a private key of 32 bytes"),
        (WEB_PUSH | {"vapid_private_key": "A" * 43}, "CONFAB_VAPID_PRIVATE_KEY should be a private key of 32 bytes"),
        (WEB_PUSH | {"vapid_private_key": "_" * 43}, "CONFAB_VAPID_PRIVATE_KEY should be a private key of 32 bytes"),
        (WEB_PUSH | {"vapid_private_key": KEY.public_text}, "CONFAB_VAPID_PRIVATE_KEY should be"),
        (
            WEB_PUSH | {"vapid_private_key_file": ANY_FILE},
            "CONFAB_VAPID_PRIVATE_KEY and CONFAB_VAPID_PRIVATE_KEY_FILE are set together",
        ),
        (
            APNS | {"apns_topic": None, "apns_team_id": None},
            "which also needs CONFAB_APNS_TEAM_ID and CONFAB_APNS_TOPIC.",
        ),
        (APNS | {"apns_key": None}, "which also needs CONFAB_APNS_KEY (or CONFAB_APNS_KEY_FILE)."),
        ({"apns_sandbox": True}, "CONFAB_APNS_SANDBOX is set, which also needs CONFAB_APNS_KEY (or"),
        (APNS | {"apns_key": pem(SERVICE_ACCOUNT)}, "CONFAB_APNS_KEY should be a private key of Apple"),
        (APNS | {"apns_key": "nonsense"}, "CONFAB_APNS_KEY should be a private key of Apple"),
        (APNS | {"apns_key_id": "abc"}, "CONFAB_APNS_KEY_ID is 'abc', but should be 10 capital letters"),
        (APNS | {"apns_topic": "two words"}, "CONFAB_APNS_TOPIC is 'two words'"),
        ({"fcm_credentials": "{}"}, "CONFAB_FCM_CREDENTIALS should be the JSON of a service account's key"),
        ({"fcm_credentials": "[]"}, "CONFAB_FCM_CREDENTIALS should be"),
        ({"fcm_credentials": service_account(private_key="x")}, "CONFAB_FCM_CREDENTIALS should be"),
        ({"fcm_credentials": service_account(private_key=apns_key())}, "CONFAB_FCM_CREDENTIALS should be"),
        ({"fcm_credentials": service_account(project_id="../x")}, "CONFAB_FCM_CREDENTIALS should be"),
        ({"fcm_credentials": service_account(client_email=7)}, "CONFAB_FCM_CREDENTIALS should be"),
        ({"fcm_credentials": service_account(token_uri="http://example.org")}, "CONFAB_FCM_CREDENTIALS should be"),
        (FCM | {"fcm_credentials_file": ANY_FILE}, "CONFAB_FCM_CREDENTIALS and CONFAB_FCM_CREDENTIALS_FILE are set"),
    ],
)
def test_incomplete_and_malformed_settings_are_refused(given: dict[str, object], problem: str) -> None:
    found = problems(**{name: value for name, value in given.items() if value is not None})
    assert len(found) == 1 and problem in found[0]
    assert not any(str(secret) in found[0] for secret in SECRETS.values())


@pytest.mark.parametrize("given", [{}, WEB_PUSH, APNS, FCM, {"apns_sandbox": False}, WEB_PUSH | APNS | FCM])
def test_each_service_is_optional(given: dict[str, object]) -> None:
    load_settings(**given)


@pytest.mark.parametrize("field", SECRETS)
def test_secrets_are_read_from_files_and_never_shown(tmp_path: Path, field: str) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRETS[field]}\n")
    others = {name: value for name, value in (WEB_PUSH | APNS | FCM).items() if name != field}
    settings = load_settings(**others, **{f"{field}_file": file})
    assert getattr(settings, field).get_secret_value() == SECRETS[field].strip()
    console = Console(record=True, width=10_000)
    print_settings(settings, console, as_json=True)
    shown = repr(settings) + console.export_text()
    for secret in SECRETS.values():
        assert secret not in shown and secret.splitlines()[-1] not in shown
    file.write_text("hunter2")
    (problem,) = problems(**others, **{f"{field}_file": file})
    assert problem.startswith(f"The file of CONFAB_{field.upper()}_FILE should contain") and "hunter2" not in problem


def test_apns_has_an_environment_for_development() -> None:
    for given, url in (({}, PRODUCTION), ({"apns_sandbox": True}, SANDBOX)):
        options = _apns_options(load_settings(**APNS, **given))
        assert options is not None and options.url == url


def test_printed_keys_are_settings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["confab", "push-keys"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    given = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    settings = load_settings(**{name.removeprefix("CONFAB_").lower(): value for name, value in given.items()})
    assert settings.vapid_private_key is not None
    public = VapidKey.parse(settings.vapid_private_key.get_secret_value()).public_text
    assert f"# {public}" in lines


def test_confab_dev_makes_a_key_once_and_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = development_push_settings(load_settings(), folder)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert development_push_settings(load_settings(), folder) == first
    load_settings(**first)
    assert development_push_settings(load_settings(**WEB_PUSH), folder) == {}
    file.write_text("damaged")
    with pytest.raises(CommandError, match="contains no key for Web Push: delete the file"):
        development_push_settings(load_settings(), folder)
    file.unlink()
    assert development_push_settings(load_settings(), folder) != first
    file.unlink()
    file.mkdir()
    with pytest.raises(CommandError, match="cannot be kept"):
        development_push_settings(load_settings(), folder)
