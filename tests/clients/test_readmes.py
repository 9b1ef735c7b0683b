"""The examples in the READMEs of the client package and of the React Native sample have the right types."""

from __future__ import annotations

from pathlib import Path

from tests.clients.programs import ROOT
from tests.clients.test_react_native import SAMPLE, pytestmark, type_errors
from tests.docs.blocks import Block, blocks

__all__ = ["pytestmark"]

PACKAGE = """
declare const token: { token: string; userId: string; expiresAt: number };
declare function fetchToken(): Promise<typeof token>;
"""
SAMPLE_NAMES = """
import type { ClientOptions } from "@confab/client";
import { Chats } from "./chat";
import { openStorage } from "./storage";
declare const AsyncStorage: Parameters<typeof openStorage>[0];
declare const tokens: ClientOptions["tokens"];
declare const savedDeviceId: string;
declare function signOut(why: string): void;
"""


def examples(page: Path) -> dict[str, Block]:
    name = page.relative_to(ROOT).as_posix()
    return {block.language: block for block in blocks() if block.page == name and block.language in ("tsx", "js")}


def test_the_examples_of_the_package_have_the_right_types(tmp_path: Path) -> None:
    shown = examples(ROOT / "web" / "client" / "README.md")
    text = 'import { privateId } from "@confab/client";\n' + PACKAGE + shown["tsx"].text + shown["js"].text
    (tmp_path / "example.tsx").write_text(text)
    assert errors(tmp_path, tmp_path / "example.tsx") == []


def test_a_wrong_name_in_an_example_is_found(tmp_path: Path) -> None:
    shown = examples(ROOT / "web" / "client" / "README.md")
    (tmp_path / "example.tsx").write_text(PACKAGE + shown["tsx"].text.replace("createClient", "createKlient"))
    assert errors(tmp_path, tmp_path / "example.tsx") != []


def test_the_example_of_the_sample_has_the_right_types(tmp_path: Path) -> None:
    for file in SAMPLE.glob("*.ts*"):
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "example.tsx").write_text(SAMPLE_NAMES + examples(SAMPLE / "README.md")["tsx"].text)
    assert errors(tmp_path, tmp_path / "example.tsx") == []


def errors(folder: Path, *files: Path) -> list[str]:
    """Return the errors of the compiler, except for names that an example shows and does not use."""
    unused = ("error TS6133", "error TS6192", "error TS6198")
    return [line for line in type_errors(folder, *files).splitlines() if not any(code in line for code in unused)]
