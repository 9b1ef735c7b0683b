"""`python -m bench.search`: see `bench.search.command`."""

from __future__ import annotations

from bench.search.command import main

main()
