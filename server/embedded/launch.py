"""A script that becomes a server: `launch.py PARENT_PID COMMAND [ARGUMENT…]`.

On Linux the server then gets SIGTERM when its parent dies, even by SIGKILL. Elsewhere the next start has to
find it. This is a program and no `preexec_fn`, because code between fork and exec can deadlock a process that
has threads.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Never returns."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        # A parent that died before this line sends no signal any more.
        if os.getppid() != parent:
            sys.exit("the process that started this server is gone")
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"cannot execute {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
