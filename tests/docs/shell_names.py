"""Names in shell scripts that do not exist: commands of Confab and their options, make targets, settings, files."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
import yaml

from server.cli.commands import app
from server.settings import Settings, variable

ROOT = Path(__file__).parents[2]
OTHERS = {
    *("cd", "cp", "curl", "docker", "git", "helm", "install", "kubectl", "node", "npm", "openssl", "pip"),
    *("swift", "systemctl", "apollo-ios-cli", "ln", "mv", "cat", "grep", "test", "sleep"),
}
"""Programs that do not belong to Confab."""

KEYWORDS = {"{", "}", "for", "do", "done", "break", "if", "then", "else", "fi", "while", "until"}

_MAKE = "\n".join(path.read_text() for path in (ROOT / "Makefile", ROOT / "web" / "web.mk"))
_TARGETS = set(re.findall(r"^([a-z-]+):", _MAKE, re.MULTILINE))
_SETTINGS = {variable(name) for name in Settings.model_fields}
_FOLDERS = ("bench/", "deploy/", "docs/", "schema/", "server/", "tests/", "web/")
_CONFAB = typer.main.get_command(app)


def unknown_names(script: str) -> list[str]:
    """Return the names in a script that do not exist in the repository."""
    script = re.sub(r"\\\n", " ", script)
    found = [name for name in re.findall(r"\b(CONFAB_\w+)=", script) if name not in _SETTINGS]
    script = re.sub(r"<<'?(\w+)'?\n.*?^\1$", "", script, flags=re.MULTILINE | re.DOTALL)
    for command in _commands(script):
        found += _unknown(command)
    return found


def _commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each command."""
    lexer = shlex.shlex(re.sub(r"(^|\s)#[^\n]*", "", script), posix=True, punctuation_chars=";|&()\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        if set(word) <= set(";|&()\n"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _unknown(words: list[str]) -> Iterator[str]:
    while words and re.match(r"\w+=", words[0]):
        words.pop(0)
    if not words:
        return
    program, *arguments = words
    yield from (word for word in words if word.startswith(_FOLDERS) and not list(ROOT.glob(word.rstrip("/"))))
    if program in KEYWORDS:
        if program != "for":
            yield from _unknown(arguments)
        return
    if program.split("/")[-1] == "confab":
        yield from _unknown_to_confab(arguments)
    elif program == "make":
        yield from _unknown_to_make(arguments)
    elif re.fullmatch(r"(.*/)?python[\d.]*", program):
        modules = [module for flag, module in pairwise(arguments) if flag == "-m"]
        yield from (module for module in modules if importlib.util.find_spec(module) is None)
    elif program.split("/")[-1] not in OTHERS:
        yield program
    if program == "helm":
        yield from _unknown_to_chart(arguments)
    if program == "systemctl":
        units = [re.sub(r"@\S+$", "@", word) for word in arguments if word.startswith("confab")]
        yield from (unit for unit in units if not (ROOT / "deploy" / "systemd" / f"{unit}.service").exists())


def _unknown_to_confab(arguments: list[str]) -> Iterator[str]:
    command: Any = _CONFAB
    while hasattr(command, "commands"):
        name = arguments.pop(0) if arguments else ""
        if name not in command.commands:
            yield f"confab {name}"
            return
        command = command.commands[name]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    yield from (f"{command.name} {option}" for option in given - options - {"--help"})


def _unknown_to_make(arguments: list[str]) -> Iterator[str]:
    for argument in arguments:
        name, is_variable, _ = argument.partition("=")
        if is_variable and not re.search(rf"^{name} \?=", _MAKE, re.MULTILINE):
            yield f"make {name}="
        if not is_variable and not argument.startswith("-") and name not in _TARGETS:
            yield f"make {name}"


def _unknown_to_chart(arguments: list[str]) -> Iterator[str]:
    values = yaml.safe_load((ROOT / "deploy" / "helm" / "confab" / "values.yaml").read_text())
    for flag, given in pairwise(arguments):
        for pair in given.split(",") if flag == "--set" else ():
            key = pair.partition("=")[0]
            place: Any = values
            if key.startswith("settings."):
                if key.removeprefix("settings.") not in _SETTINGS:
                    yield key
                continue
            for part in key.split("."):
                if not isinstance(place, dict) or part not in place:
                    yield key
                    break
                place = place[part]
