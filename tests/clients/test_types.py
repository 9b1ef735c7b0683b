"""The types that clients copy match the schema."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.programs import ROOT

WEB = ROOT / "web"
TYPES = WEB / "types"

needs_packages = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules" / "@graphql-codegen" / "core").is_dir(),
    reason="needs Node.js and the packages of web/package.json: make web",
)

USE = """
import type { Session, SyncSession, SendMessageInput, ErrorCode } from "./confab";
export const later = (a: Session, b: Session): number => b.writeTs - a.writeTs;
export const cursor = (event: SyncSession): string => event.cursor;
export const input: SendMessageInput = { toUserId: "bob", content: "hello" };
export const code: ErrorCode = "NOT_A_MEMBER";
"""

MISUSE = (
    'import type { Session } from "./confab"; export const bad = (s: Session): string => s.writeTs;',
    'import type { SendMessageInput } from "./confab"; export const bad: SendMessageInput = { toUserId: "bob" };',
    'import type { ErrorCode } from "./confab"; export const bad: ErrorCode = "NO_SUCH_CODE";',
)


@needs_packages
def test_the_generated_types_are_up_to_date() -> None:
    done = subprocess.run(["node", "types/make.mjs", "--check"], cwd=WEB, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@needs_packages
def test_the_compiler_finds_a_wrong_use_of_the_types(tmp_path: Path) -> None:
    shutil.copy(TYPES / "confab.d.ts", tmp_path)
    for name, text in {"use": USE, **{f"misuse{number}": text for number, text in enumerate(MISUSE)}}.items():
        (tmp_path / f"{name}.ts").write_text(text)
    tsc = WEB / "node_modules" / ".bin" / "tsc"
    files = sorted(path.name for path in tmp_path.glob("*use*.ts"))
    command = [tsc, "--noEmit", "--strict", "--module", "esnext", "--moduleResolution", "bundler", *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    wrong = {line.partition("(")[0] for line in done.stdout.splitlines() if "error TS" in line}
    assert wrong == {"misuse0.ts", "misuse1.ts", "misuse2.ts"}, done.stdout
