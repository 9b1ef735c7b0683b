"""Run the command line: `python -m server.cli`."""

from __future__ import annotations

from server.cli.commands import main

if __name__ == "__main__":
    main()
