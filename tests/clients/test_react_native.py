"""The React Native sample has the right types, and its storage keeps what the client has not sent."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.clients.programs import GUIDE, HERE, ROOT, missing

WEB = ROOT / "web"
MODULES = WEB / "node_modules"
SAMPLE = GUIDE / "react-native"
HERMES = MODULES / "hermes-engine-cli" / "linux64-bin" / "hermes"
PROMISES = [
    "a message is on the disk before it is stored",
    "the client is active",
    "a restarted app sends what waited",
    "each attempt has the same key",
    "the disk is empty again",
]

_MISSING = missing() or (None if (MODULES / "vite").is_dir() else "needs the packages of web/package.json: make web")
pytestmark = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], cwd=WEB, capture_output=True, text=True, timeout=180)


def type_errors(folder: Path, *files: Path) -> str:
    react = MODULES / "@types" / "react"
    paths = {
        "@confab/client": [str(WEB / "client" / "src" / "index.ts")],
        "@confab/client/react": [str(WEB / "client" / "src" / "react.ts")],
        "react": [str(react)],
        "react/jsx-runtime": [str(react / "jsx-runtime.d.ts")],
        "graphql-ws": [str(MODULES / "graphql-ws")],
    }
    config = {
        "extends": str(WEB / "tsconfig.json"),
        "compilerOptions": {"noEmit": True, "types": [], "paths": paths},
        "files": [str(path) for path in (*files, HERE / "react_native.d.ts")],
    }
    (folder / "tsconfig.json").write_text(json.dumps(config))
    return _run("node", MODULES / "typescript" / "bin" / "tsc", "-p", folder).stdout


def test_the_sample_has_the_right_types(tmp_path: Path) -> None:
    files = sorted(SAMPLE.glob("*.ts*"))
    assert {path.name for path in files} == {"chat.tsx", "storage.ts"}
    assert type_errors(tmp_path, *files, HERE / "react_native.ts") == ""


def test_a_wrong_type_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.tsx"
    wrong.write_text((SAMPLE / "chat.tsx").read_text().replace("unreadCount > 0", 'unreadCount > "0"'))
    assert "error TS" in type_errors(tmp_path, wrong)


def _program(folder: Path, *engine: str) -> Path:
    out = folder / "program.js"
    built = _run("node", HERE / "build_react_native.mjs", WEB, out, *engine)
    assert built.returncode == 0, built.stderr
    return out


def test_unsent_messages_survive_in_the_storage_of_the_sample(tmp_path: Path) -> None:
    ran = _run("node", _program(tmp_path))
    assert ran.stdout.splitlines() == [f"ok {each}" for each in PROMISES], ran.stderr


@pytest.mark.skipif(not HERMES.is_file(), reason="needs npm hermes-engine-cli and Babel: docs/clients/react-native")
def test_the_client_works_in_hermes(tmp_path: Path) -> None:
    ran = _run(HERMES, _program(tmp_path, "hermes"))
    assert ran.stdout.splitlines() == [f"ok {each}" for each in PROMISES], ran.stderr
