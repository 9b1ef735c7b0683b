"""The versions in constraints.txt can be installed together: pip refuses every new environment otherwise."""

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def pinned_versions() -> dict[str, str]:
    lines = (line.split("#")[0].strip() for line in CONSTRAINTS.read_text().splitlines())
    pins = (line.split(";")[0].strip().split("==") for line in lines if line)
    return {canonicalize_name(name): version for name, version in pins}


def is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


PINS = pinned_versions()
INSTALLED = [name for name in PINS if is_installed(name)]


def test_installed_versions_are_the_pinned_ones() -> None:
    assert len(INSTALLED) > 40
    assert {name: metadata.version(name) for name in INSTALLED} == {name: PINS[name] for name in INSTALLED}


def test_pinned_versions_accept_each_other() -> None:
    refused = [
        f"{name} needs {requirement}, pinned is {PINS[canonicalize_name(requirement.name)]}"
        for name in ["confab", *INSTALLED]
        for requirement in map(Requirement, metadata.requires(name) or [])
        if canonicalize_name(requirement.name) in PINS
        and (name == "confab" or requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
        and not requirement.specifier.contains(PINS[canonicalize_name(requirement.name)], prereleases=True)
    ]
    assert refused == []
