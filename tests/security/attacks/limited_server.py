"""Runs the command line with a limit on open files, as `ulimit -n` gives: `ATTACK_MAX_FILES`."""

from __future__ import annotations

import os
import resource

from server.cli.commands import main

if __name__ == "__main__":
    limit = int(os.environ["ATTACK_MAX_FILES"])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    main()
