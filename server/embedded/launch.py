"""Script that executes a server: `launch.py PARENT_PID COMMAND [ARGUMENT…]`.

On Linux the server gets SIGTERM when its parent dies, also by SIGKILL. On other systems the next start has to find and
stop it. This is a script, not a `preexec_fn`, because code between fork and exec can deadlock a process with threads.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Replace this process by the command. Never returns."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        # A parent that died before the call above causes no signal.
        if os.getppid() != parent:
            sys.exit("the process that started this server is gone")
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"cannot execute {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
