"""All blocks of code of the documents, and the class of each: the test that runs it, or what is checked instead."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "web" / "client" / "README.md")

SHELL = "commands, settings and files of a shell script exist"
SHOWN = "a picture made of text, or what a program prints"
PARSED = "valid JSON"
NAMED = "names in it are in the files of its sample"
OTHERS = "configuration of another program"

CLASSES = (
    # Pages, languages, and the test that runs the block, or what is checked instead. The first matching row counts.
    ("README.md", "graphql sh", "tests/docs/test_examples.py"),
    ("docs/start.md", "graphql sh", "tests/docs/test_examples.py"),
    ("docs/concepts/*.md", "graphql json", "tests/docs/test_examples.py"),
    ("docs/guides/*.md", "graphql json sh", "tests/docs/test_examples.py"),
    ("docs/features/*.md", "graphql", "tests/docs/test_features.py"),
    ("docs/features/webhooks.md", "sh", "tests/webhooks/incoming/test_guide.py"),
    ("docs/backend.md", "sh", "tests/server/test_backend_guide.py"),
    ("docs/auth.md", "sh", "tests/api/requests/test_identity_providers.py"),
    ("docs/auth.md", "js python", "tests/docs/test_auth_examples.py"),
    ("docs/auth.md", "json", PARSED),
    ("docs/deployment*", "yaml", "tests/deployment/test_kubernetes.py"),
    ("CONTRIBUTING.md", "diff", "tests/architecture/test_contributing.py"),
    ("web/client/README.md", "tsx js", "tests/clients/test_readmes.py"),
    ("docs/clients/react-native/README.md", "tsx", "tests/clients/test_readmes.py"),
    ("docs/clients/swift/README.md", "swift", NAMED),
    ("docs/clients/kotlin/README.md", "kotlin", NAMED),
    ("docs/clients.md", "js", "tests/clients/test_guide.py"),
    ("docs/clients/*.md", "js jsx python json", "tests/clients/test_guide.py"),
    ("docs/features/*.md", "js python", "tests/clients/test_guide.py"),
    ("docs/clients/errors.md", "http", "tests/docs/test_blocks.py"),
    ("docs/operations*", "json", PARSED),
    ("docs/operations*", "yaml", OTHERS),
    ("*", "sh", SHELL),
    ("*", "text", SHOWN),
    ("SECURITY.md", "-", SHOWN),
    ("docs/ARCHITECTURE.md", "-", SHOWN),
    ("docs/admin.md", "-", SHOWN),
    ("docs/operations*", "-", SHOWN),
)

_BLOCK = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^\1\2$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code of a document."""

    page: str
    language: str
    text: str

    @property
    def kind(self) -> str | None:
        """The path of the test that runs it, or the class of what is checked; None if it is in no class."""
        for page, languages, kind in CLASSES:
            if fnmatch(self.page, page) and self.language in languages.split():
                return kind
        return None


def blocks() -> list[Block]:
    """Return the blocks of all documents. A block without a language has the language "-"."""
    found = []
    for document in DOCUMENTS:
        page = document.relative_to(ROOT).as_posix()
        for _, _, language, text in _BLOCK.findall(document.read_text(encoding="utf-8")):
            found.append(Block(page, language or "-", textwrap.dedent(text)))
    return found
