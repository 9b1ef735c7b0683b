"""The forms that servers share while they run, as text: a change of one changes a line of `shared_formats.txt`.

`python -m tests.upgrade.shared_forms "WHAT CHANGED, AND WHY OLD AND NEW SERVERS WORK TOGETHER"` writes the note and the
present forms into that file. Comments, docstrings and white space do not count.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import resolvers
import store
import subscriptions
from store.deployment.shared_formats import SHARED_FORMAT
from store.redis.keys import CHANNEL_KEYS, USER_KEYS, Keys
from store.scripts import LITERALS
from store.sessions.fields import NAMES
from subscriptions.realtime.events.registry import EPHEMERAL_KINDS, EVENT_KINDS
from subscriptions.realtime.events.shared_registry import SHARED_EVENT_KINDS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "upgrade" / "shared_formats.txt"
BEGIN = "== forms: written by tests/upgrade/shared_forms.py, not by hand ==\n"

_WRITERS = ("to_*", "encode*", "log_entry", "fields_of", "row_of", "row_args", "*_fields")
"""Names of functions that write a shared form."""

_NO_FORMS = (
    *("store.admin", "store.checking", "store.erasure", "store.files.blobs", "store.mongo", "store.redis"),
    *("store.search", "store.text", "subscriptions.transport"),
)
_SAMPLES: Mapping[str, Any] = {
    "UserId": "anna", "ConversationId": "g_7", "MessageId": 7, "WorkspaceId": "w_7", "str": "name", "int": 1,
    "bool": False,
}  # fmt: skip
_TEXT = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_LUA_TOKEN = re.compile(rf"(?P<text>{_TEXT}|\[\[.*?\]\])|--\[\[.*?\]\]|--[^\n]*|\s+", re.S)
_PYTHON_TOKEN = re.compile(rf"(?P<text>{_TEXT})|#[^\n]*|\s+", re.S)


@cache
def list_forms() -> tuple[str, ...]:
    """Return a line for each form, in order."""
    modules = list(_modules(store, subscriptions))
    of_names = {*_scripts(), *_literals(), *_keys(), *_sessions(), *_events(), *_enums(modules), *_tables(modules)}
    return tuple(sorted(of_names | {*_writers(modules), *_kinds([*modules, *_modules(resolvers)])}))


def without_comments(lua: str) -> str:
    """Return a Lua text without comments, and with one space in place of each white space."""
    text = _LUA_TOKEN.sub(lambda found: found["text"] or " ", lua)
    return re.sub(r" +", " ", text).strip()


def read_file() -> tuple[str, tuple[str, ...]]:
    """Return the notes and the forms of the file."""
    notes, _, forms = FILE.read_text().partition(BEGIN)
    return notes, tuple(forms.splitlines())


def renew(note: str) -> None:
    """Write a note and the present forms into the file."""
    notes, _ = read_file()
    head, _, older = notes.partition("\n\n")
    FILE.write_text(f"{head}\n\n{SHARED_FORMAT} {note}\n{older.strip()}\n\n{BEGIN}" + "\n".join(list_forms()) + "\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _scripts() -> Iterator[str]:
    for path in sorted((ROOT / "store").glob("*/scripts/*.lua")):
        yield f"script {path.parents[1].name}/{path.name} {_digest(without_comments(path.read_text()))}"


def _literals() -> Iterator[str]:
    for package, literals in LITERALS.items():
        for name, literal in literals.items():
            shown = literal if len(literal) < 60 else _digest(without_comments(literal))
            yield f"literal {package} {name} {shown}"


def _keys() -> Iterator[str]:
    keys = Keys("x:")
    keys.enter(1)
    yield f"keys of a user: {' '.join(USER_KEYS)}"
    yield f"keys of a user's channels: {' '.join(CHANNEL_KEYS)}"
    for name, member in vars(Keys).items():
        if isinstance(member, property):
            yield f"key {name} {getattr(keys, name)}"
        elif inspect.isfunction(member) and not name.startswith("_") and name != "enter":
            parameters = list(inspect.signature(member).parameters.values())[1:]
            given = {each.name: _SAMPLES.get(str(each.annotation).split(" ")[0], 1) for each in parameters}
            by_place = [given[each.name] for each in parameters if each.kind is not each.KEYWORD_ONLY]
            by_name = {each.name: given[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY}
            yield f"key {name} {getattr(keys, name)(*by_place, **by_name)}"


def _sessions() -> Iterator[str]:
    for name, field in NAMES.items():
        yield f"session {name} {field.stored} {field.kept.name}{' fixed' if field.fixed else ''} {field.default!r}"


def _events() -> Iterator[str]:
    for clock, kinds in (("user", EVENT_KINDS), ("workspace", SHARED_EVENT_KINDS)):
        for kind in kinds:
            yield f"event of a {clock} {kind.code} {kind.__name__}"
    for ephemeral in EPHEMERAL_KINDS:
        yield f"event without a clock {ephemeral.frame} {ephemeral.__name__}"


def _enums(modules: list[ModuleType]) -> Iterator[str]:
    for owner in _classes(modules):
        if issubclass(owner, Enum) and issubclass(owner, str):
            yield f"values {owner.__name__} {' '.join(str(member.value) for member in owner)}"


def _tables(modules: list[ModuleType]) -> Iterator[str]:
    for owner in _classes(modules):
        if owner.__name__.endswith("Field"):
            for name, value in vars(owner).items():
                if name.isupper():
                    yield f"field {owner.__name__} {name} {value}"


def _writers(modules: list[ModuleType]) -> Iterator[str]:
    for module in modules:
        source = inspect.getsource(module)
        lines, tree = source.splitlines(), ast.parse(source)
        owners = [(module.__name__, tree.body)]
        owners += [
            (f"{module.__name__}.{node.name}", node.body) for node in tree.body if isinstance(node, ast.ClassDef)
        ]
        for place, body in owners:
            for node in body:
                if isinstance(node, ast.FunctionDef) and any(fnmatch(node.name.lstrip("_"), each) for each in _WRITERS):
                    yield f"writer {place}.{node.name} {_digest(_code_of(node, lines))}"


def _code_of(function: ast.FunctionDef, lines: list[str]) -> str:
    """Return the code of a function without docstring, comments, white space, and commas that a formatter adds."""
    first = function.body[0]
    head, body = lines[function.lineno - 1 : first.lineno - 1], lines[first.lineno - 1 : function.end_lineno]
    if ast.get_docstring(function) is not None:
        body = lines[first.end_lineno : function.end_lineno]
    code = _PYTHON_TOKEN.sub(lambda found: found["text"] or "", "\n".join([*head, *body]))
    return re.sub(r",([)\]}])", r"\1", code)


def _kinds(modules: list[ModuleType]) -> Iterator[str]:
    """Yield the kinds of frames, and of questions that servers ask each other."""
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            match node:
                case ast.Call(func=ast.Attribute(attr="on_frame" | "answer_kind" as what), args=[kind, *_]):
                    word = "frame" if what == "on_frame" else "question"
                    match kind:
                        case ast.Constant(value=str(name)):
                            yield f"{word} {name}"
                        case ast.Name(id=variable) if variable in vars(module):
                            yield f"{word} {vars(module)[variable]}"


def _classes(modules: list[ModuleType]) -> Iterator[type]:
    for module in modules:
        for member in vars(module).values():
            if inspect.isclass(member) and member.__module__ == module.__name__:
                yield member


def _modules(*packages: ModuleType) -> Iterator[ModuleType]:
    for package in packages:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.startswith(_NO_FORMS):
                yield importlib.import_module(found.name)


def main(say: Callable[[str], object] = print) -> int:
    """Write the note on the command line and the forms. Return the exit code."""
    note = " ".join(sys.argv[1:]).strip()
    if len(note.split()) < 4:
        say((__doc__ or "").partition("\n\n")[2])
        return 2
    renew(note)
    say(f"Written: {FILE.relative_to(ROOT)}. Now run the upgrade test: python -m pytest tests/upgrade")
    return 0


if __name__ == "__main__":
    sys.exit(main())
