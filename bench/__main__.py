"""`python -m bench`: the cost of Confab next to a baseline and the floor. docs/benchmarks.md explains the results."""

from __future__ import annotations

from bench.suite.command import main

main()
