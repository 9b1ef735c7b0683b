"""Imports follow the layers; drivers and GraphQL stay in their packages."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.architecture.sources import PACKAGES, ROOT, imported, importers, modules, nodes

DRIVERS = ("pymongo", "motor", "redis", "bson", "gridfs")


def test_the_import_contracts_are_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_package_is_under_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    packaged = {pattern.rstrip("*") for pattern in settings["setuptools"]["packages"]["find"]["include"]}
    assert packaged == set(PACKAGES) == set(settings["importlinter"]["root_packages"])
    layers = next(c["layers"] for c in settings["importlinter"]["contracts"] if c["type"] == "layers")
    assert layers == ["server", "schema", "resolvers", "subscriptions", "store"]


def test_drivers_are_imported_in_store_and_subscriptions_alone() -> None:
    """Exception: the embedded MongoDB, which becomes a replica set before the store can use it."""
    elsewhere = {path for path in importers(*DRIVERS) if not path.startswith(("store/", "subscriptions/"))}
    assert elsewhere == {"server/embedded/mongod.py"}


def test_the_graphql_library_is_imported_in_schema_alone() -> None:
    elsewhere = {path for path in importers("strawberry", "graphql") if not path.startswith("schema/")}
    assert elsewhere == set()


def test_imports_inside_functions_are_found() -> None:
    source = "import a.b\nfrom c.d import e\nfrom . import f\ndef g():\n    from h import i\n    import j as k\n"
    assert imported(ast.walk(ast.parse(source))) == {"a", "c", "h", "j"}
    assert "store/mongo/client.py" in importers(*DRIVERS)


def test_no_module_rebinds_globals() -> None:
    rebinding = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules(*PACKAGES)
        for node in nodes(path)
        if isinstance(node, ast.Global)
    }
    assert rebinding == set()
