"""`python -m bench`: the cost of Confab next to a baseline and the floor. docs/benchmarks.md explains the results."""

from __future__ import annotations

import sys

from bench import workspaces
from bench.files import transfers
from bench.search import command as search
from bench.suite.command import main

if sys.argv[1:2] == ["workspaces"]:
    workspaces.main(sys.argv[2:])
elif sys.argv[1:2] == ["files"]:
    transfers.main(sys.argv[2:])
elif sys.argv[1:2] == ["search"]:
    search.main(sys.argv[2:])
else:
    main()
