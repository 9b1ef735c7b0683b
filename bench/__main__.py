"""`python -m bench`: what Confab costs, beside a baseline and the floor. docs/benchmarks.md tells how to read it."""

from __future__ import annotations

from bench.suite.command import main

main()
