"""Settings: accepted values, and the messages about values that are refused."""

from __future__ import annotations

import json
import os
import secrets
from ipaddress import ip_network
from pathlib import Path

import pytest
from pydantic import ValidationError

from resolvers.push.services.vapid import VapidKey
from server.settings import (
    DEVELOPMENT_SECRET,
    MIN_SECRET_BYTES,
    Settings,
    SettingsError,
    check_fit_to_serve,
    find_foreign_token_warning,
    load_settings,
    variable,
)
from server.settings.fields import RENAMED
from tests.push.services.keys import apns_key, service_account

GOOD_SECRET = "b0f5a9c7d2e84163908f7a6b5c4d3e21"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("CONFAB_")]:
        monkeypatch.delenv(name)


def problems(**overrides: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(**overrides)
    return caught.value.problems


def test_settings_have_defaults() -> None:
    settings = load_settings()
    assert settings.mongo_url == "mongodb://127.0.0.1:27017/?replicaSet=rs0"
    assert settings.port == 8000
    assert settings.jwt_secret is None
    assert not settings.model_fields_set


def test_every_setting_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jwks = tmp_path / "keys.json"
    jwks.touch()
    given = {
        "mongo_url": "mongodb+srv://cluster.example.org",
        "mongo_database": "chat-2",
        "mongo_driver": "motor",
        "redis_url": "rediss://:secret@cache.example.org",
        "redis_prefix": "confab:",
        "host": "::1",
        "port": "1",
        "public_url": "https://chat.example.org/confab/",
        "jwks_file": str(jwks),
        "jwt_previous_secrets": json.dumps([GOOD_SECRET, f"{GOOD_SECRET},"]),
        "jwt_audience": "chat, mail",
        "jwt_audience_claim": "azp",
        "jwt_issuer": "https://id.example.org/",
        "jwt_user_claim": "user.id",
        "jwt_name_claim": "user_metadata.name",
        "jwt_picture_claim": "user_metadata.avatar_url",
        "jwt_role_claim": "https://chat.example.org/roles",
        "cors_origins": "https://chat.example.org, http://localhost:3000",
        "allowed_hosts": "chat.example.org, confab",
        "introspection": "false",
        "graphiql": "0",
        "demo": "false",
        "operations_file": str(jwks),
        "operations_only": "true",
        "max_body_bytes": "1024",
        "max_query_depth": "3",
        "max_query_aliases": "0",
        "max_query_cost": "1",
        "head_timeout_seconds": "0.5",
        "body_timeout_seconds": "3600",
        "answer_timeout_seconds": "1",
        "min_client_bytes_per_second": "0",
        "max_unsent_bytes_per_user": "65536",
        "max_unsent_bytes": "1000000000",
        "ws_init_timeout_seconds": "0.5",
        "ws_ping_interval_seconds": "3600",
        "ws_max_connections": "1",
        "ws_max_connections_per_user": "1",
        "ws_max_subscriptions": "1",
        "ws_drain_seconds": "0",
        "ws_max_queued_events": "1",
        "sse_max_streams": "1",
        "sse_max_streams_per_user": "1",
        "sse_max_waiting_operations_per_user": "1",
        "sse_max_waiting_bytes": "65536",
        "sends_per_minute": "0",
        "group_changes_per_minute": "1",
        "connections_per_minute": "1000000",
        "operations_per_minute": "2",
        "workspace_changes_per_minute": "3",
        "invite_lookups_per_minute": "4",
        "webhook_posts_per_minute": "7",
        "work_per_second": "3",
        "work_budget": "4",
        "otel_endpoint": "http://127.0.0.1:4318",
        "otel_sample_ratio": "1",
        "migrate": "false",
        "metrics_port": "9464",
        "metrics_host": "::1",
        "metrics_port_count": "2",
        "metrics_token": "a-token-of-prometheus",
        "document_cpu_percent": "0",
        "anonymous_cpu_percent": "100",
        "max_operations": "1",
        "max_running_per_user": "1",
        "max_reads_per_user": "3",
        "max_waiting_per_user": "1",
        "max_waiting_events_per_user": "1",
        "max_catch_ups_per_user": "1",
        "operation_timeout_seconds": "0.5",
        "keep_alive_seconds": "1",
        "max_group_members": "3",
        "recall_seconds": "0",
        "max_workspaces_per_user": "5",
        "max_voice_channel_users": "2",
        "user_directory": "true",
        "search": "off",
        "max_downloads": "1",
        "file_address_previous_keys": json.dumps([GOOD_SECRET]),
        "blob_store": "s3",
        "max_file_bytes": "1024",
        "s3_bucket": "confab-files",
        "s3_region": "eu-central-1",
        "s3_endpoint": "http://minio:9000/",
        "s3_public_endpoint": "https://files.example.org",
        "s3_path_style": "false",
        "s3_access_key": "AKIAIOSFODNN7EXAMPLE",
        "s3_secret_key": GOOD_SECRET,
        "livekit_url": "wss://livekit.example.org/",
        "livekit_api_url": "http://livekit:7880/",
        "livekit_api_key": "APIkey",
        "livekit_api_secret": GOOD_SECRET,
        "temp_dir": str(jwks.parent),
        "scanner_url": "unix:///run/clamav/clamd.ctl",
        "link_previews": "true",
        "preview_allowed_networks": "10.1.0.0/16, fd00::/8",
        "workers": "false",
        "push_previews": "false",
        "allow_loopback": "true",
        "vapid_private_key": VapidKey.generate().private_text,
        "vapid_contact": "https://example.org/contact",
        "apns_key": apns_key(),
        "apns_key_id": "ABC123DEFG",
        "apns_team_id": "DEF123GHIJ",
        "apns_topic": "org.example.chat",
        "apns_sandbox": "true",
        "fcm_credentials": service_account(),
        "retention_days": "30",
        "audit_days": "0",
        "content_hook_url": "http://moderation:9000/check",
        "content_hook_secret": "whsec_" + "c2VjcmV0" * 5 + "c2VjcmV0",
        "content_hook_fails_open": "false",
        "content_hook_reporter": "moderator",
        "data_center": "31",
        "log_level": "debug",
        "log_format": "CONSOLE",
        "development": "true",
    }
    not_given = {"jwt_secret", "jwt_secret_file", "jwt_previous_secrets_file", "jwks_url"}
    not_given |= {"s3_secret_key_file", "file_address_key", "file_address_key_file", "file_address_previous_keys_file"}
    not_given |= {"livekit_api_secret_file", "vapid_private_key_file", "apns_key_file", "fcm_credentials_file"}
    not_given |= {"content_hook_secret_file"}
    assert not_given | given.keys() == Settings.model_fields.keys()
    for field, value in given.items():
        monkeypatch.setenv(variable(field), value)
    settings = load_settings()
    assert settings.model_fields_set == given.keys()
    assert settings.cors_origins == ("https://chat.example.org", "http://localhost:3000")
    assert settings.jwt_audience == ("chat", "mail")
    assert settings.preview_allowed_networks == (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    assert settings.s3_endpoint == "http://minio:9000"
    assert (settings.livekit_url, settings.livekit_api_url) == ("wss://livekit.example.org", "http://livekit:7880")
    assert settings.public_url == "https://chat.example.org/confab"
    assert [secret.get_secret_value() for secret in settings.jwt_previous_secrets] == [GOOD_SECRET, f"{GOOD_SECRET},"]
    assert (settings.log_level, settings.log_format, settings.introspection) == ("DEBUG", "console", False)


def test_overrides_take_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFAB_PORT", "9000")
    assert load_settings(port=9001).port == 9001


def test_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFAB_JWT_SECRET", "")
    assert load_settings().jwt_secret is None


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("mongo_url", "http://host", "a URL such as mongodb://host:27017/?replicaSet=rs0"),
        ("mongo_url", "mongodb://", "a URL such as mongodb://host:27017/?replicaSet=rs0"),
        ("mongo_url", "mongodb://[::1", "a URL such as mongodb://host:27017/?replicaSet=rs0"),
        ("mongo_database", "a.b", "1 to 63 letters, digits, - or _"),
        ("mongo_driver", "pymango", "one of pymongo, motor"),
        ("redis_url", "memcached://host", "a URL such as redis://host:6379/0 (rediss:// for TLS)"),
        ("redis_url", "redis://host:port/0", "a URL such as redis://host:6379/0 (rediss:// for TLS)"),
        (
            "redis_url",
            "redis+cluster://a,b:x",
            "a URL such as redis+cluster://host:7000,host:7001 (rediss+cluster:// for TLS)",
        ),
        ("redis_url", "redis://host/first", "a URL such as redis://host:6379/0 (rediss:// for TLS)"),
        ("redis_prefix", "{a}", "up to 64 letters, digits and _ . : -"),
        ("port", "0", "a whole number from 1 to 65535"),
        ("port", "65536", "a whole number from 1 to 65535"),
        ("port", "http", "a whole number from 1 to 65535"),
        ("jwks_file", "/no/such/file", "a file that exists and can be read"),
        ("cors_origins", "*", "origins such as https://chat.example.org, separated by commas, without a path"),
        (
            "cors_origins",
            "https://a.org/",
            "origins such as https://chat.example.org, separated by commas, without a path",
        ),
        ("scanner_url", "tcp://127.0.0.1", "a URL such as tcp://127.0.0.1:3310 or unix:///run/clamav/clamd.ctl"),
        ("scanner_url", "unix://clamd.ctl", "a URL such as tcp://127.0.0.1:3310 or unix:///run/clamav/clamd.ctl"),
        ("temp_dir", "/nowhere", "a folder that exists and can be written to"),
        ("public_url", "chat.example.org", "a URL such as https://chat.example.org, without a query"),
        ("public_url", "https://a.org/#x", "a URL such as https://chat.example.org, without a query"),
        ("jwt_audience", "chat,,mail", "names of audiences, separated by commas"),
        ("jwt_role_claim", "roles.", "the name of a claim, or the names of nested claims separated by dots"),
        ("jwt_user_claim", " sub", "the name of a claim, or the names of nested claims separated by dots"),
        ("introspection", "perhaps", "true or false"),
        ("max_body_bytes", "1023", "a whole number from 1024 to 67108864"),
        ("ws_init_timeout_seconds", "0", "a number above 0 to 300"),
        ("ws_ping_interval_seconds", "soon", "a number above 0 to 3600"),
        ("ws_max_connections", "0", "a whole number from 1 to 1000000"),
        ("ws_max_connections_per_user", "many", "a whole number from 1 to 1000000"),
        ("data_center", "32", "a whole number from 0 to 31"),
        ("log_level", "LOUD", "one of DEBUG, INFO, WARNING, ERROR"),
    ],
)
def test_message_names_the_variable_and_the_accepted_values(
    monkeypatch: pytest.MonkeyPatch, field: str, value: str, accepted: str
) -> None:
    monkeypatch.setenv(variable(field), value)
    assert problems() == [f"{variable(field)} is {value!r}, but should be {accepted}."]


@pytest.mark.parametrize("field", ["jwt_secret", "metrics_token", "file_address_key"])
def test_message_about_a_secret_does_not_contain_it(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    monkeypatch.setenv(variable(field), "hunter2")
    (problem,) = problems()
    assert problem.startswith(f"{variable(field)} should be ")
    assert "hunter2" not in problem


def test_all_problems_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFAB_PORT", "x")
    monkeypatch.setenv("CONFAB_LOG_LEVEL", "x")
    assert len(problems(data_center=-1)) == 3


def test_misspelt_variable_is_refused_with_the_closest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFAB_MAX_BODY_BITES", "5")
    assert problems() == ["CONFAB_MAX_BODY_BITES is not a setting of Confab: did you mean CONFAB_MAX_BODY_BYTES?"]


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_former_name_is_refused_with_the_new_name(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    monkeypatch.setenv(variable(old), "1")
    assert problems() == [f"{variable(old)} was renamed: set {variable(new)} instead."]
    monkeypatch.delenv(variable(old))
    assert problems(**{old: 1}) == [f"{old} was renamed: set {new} instead."]
    assert new in Settings.model_fields


@pytest.mark.parametrize("url", ["http://id.example.org/jwks", "https://", "file:///etc/passwd", "https://host:http/"])
def test_public_keys_are_not_fetched_over_insecure_urls(url: str) -> None:
    (problem,) = problems(jwks_url=url)
    assert problem.startswith(f"CONFAB_JWKS_URL is {url!r}, but should be an https:// URL")


def test_public_keys_may_be_fetched_over_http_from_this_machine() -> None:
    assert load_settings(jwks_url="http://127.0.0.1:9000/jwks").jwks_url == "http://127.0.0.1:9000/jwks"


def test_short_secret_is_refused_without_printing_it() -> None:
    (problem,) = problems(jwt_secret="hunter2")
    assert problem.startswith("CONFAB_JWT_SECRET should be at least 32 bytes")
    assert "hunter2" not in problem


def test_length_of_a_secret_is_counted_in_bytes() -> None:
    assert load_settings(jwt_secret="é" * (MIN_SECRET_BYTES // 2)).jwt_secret is not None


@pytest.mark.parametrize(
    "keys",
    [
        ("jwt_secret", "jwt_secret_file"),
        ("jwt_secret", "jwks_url"),
        ("jwt_secret", "jwks_file"),
        ("jwt_secret_file", "jwks_url"),
        ("jwks_url", "jwks_file"),
    ],
)
def test_two_kinds_of_key_together_are_refused(keys: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(GOOD_SECRET)
    values = {"jwt_secret": GOOD_SECRET, "jwks_url": "https://id.example.org/jwks", "jwks_file": file}
    values["jwt_secret_file"] = file
    (problem,) = problems(**{key: values[key] for key in keys})
    assert (
        problem == f"{variable(keys[0])} and {variable(keys[1])} are set together: "
        "set only the one that your tokens are signed with."
    )


def test_claim_of_the_audience_needs_an_audience() -> None:
    (problem,) = problems(jwt_audience_claim="azp")
    assert problem.startswith("CONFAB_JWT_AUDIENCE_CLAIM is set without CONFAB_JWT_AUDIENCE")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "CONFAB_JWT_AUDIENCE and CONFAB_JWT_ISSUER are not set"),
        ({"jwt_issuer": "https://id.example.org/"}, "CONFAB_JWT_AUDIENCE is not set"),
        ({"jwt_audience": "chat"}, "CONFAB_JWT_ISSUER is not set"),
    ],
)
def test_key_set_by_address_without_audience_or_issuer_has_a_warning(given: dict[str, str], named: str) -> None:
    warning = find_foreign_token_warning(load_settings(jwks_url="https://id.example.org/jwks", **given))
    assert warning is not None
    assert warning.startswith(named)


def test_settings_that_accept_no_foreign_tokens_have_no_warning(tmp_path: Path) -> None:
    complete = {"jwt_audience": "chat", "jwt_issuer": "https://id.example.org/"}
    assert find_foreign_token_warning(load_settings(jwks_url="https://id.example.org/jwks", **complete)) is None
    assert find_foreign_token_warning(load_settings(jwt_secret=GOOD_SECRET)) is None


def test_development_secret_is_refused_outside_development() -> None:
    assert load_settings(jwt_secret=DEVELOPMENT_SECRET, development=True).development
    (problem,) = problems(jwt_secret=DEVELOPMENT_SECRET)
    assert problem.startswith("CONFAB_JWT_SECRET is the development secret")


def test_serving_needs_a_key_and_no_development_mode() -> None:
    check_fit_to_serve(load_settings(jwt_secret=GOOD_SECRET))
    for weak in ("x" * 64, "secret" * 10, "0123456789" * 5, "your-256-bit-secret-your-256-bit-secret"):
        with pytest.raises(SettingsError, match="can be guessed"):
            check_fit_to_serve(load_settings(jwt_secret=weak))
    for _ in range(20):
        check_fit_to_serve(load_settings(jwt_secret=secrets.token_hex(16)))
        check_fit_to_serve(load_settings(jwt_secret=secrets.token_urlsafe(24)))
    with pytest.raises(SettingsError, match="No key to check tokens with"):
        check_fit_to_serve(load_settings())
    with pytest.raises(SettingsError, match="CONFAB_DEVELOPMENT is set"):
        check_fit_to_serve(load_settings(jwt_secret=DEVELOPMENT_SECRET, development=True))


def test_printed_settings_contain_no_secrets() -> None:
    settings = load_settings(
        jwt_secret=GOOD_SECRET,
        jwt_previous_secrets=[GOOD_SECRET],
        mongo_url="mongodb://u:opensesame@host",
        redis_url="redis://:opensesame@host",
    )
    for text in (repr(settings), str(settings)):
        assert GOOD_SECRET not in text
        assert "opensesame" not in text


def test_message_about_a_url_contains_no_password() -> None:
    (problem,) = problems(mongo_url="postgres://u:opensesame@host/db")
    assert "'postgres://***@host/db'" in problem
    assert "opensesame" not in problem


def test_settings_are_immutable() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.port = 1  # type: ignore[misc]


def test_dotenv_file_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("CONFAB_PORT=9999\n")
    monkeypatch.chdir(tmp_path)
    assert load_settings().port == 8000
