"""Refuse system calls that decoding does not need: files, programs, processes, the network (Linux only)."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 1, 38, 22, 2
_SIGKILL = 9

# Classic BPF: load a word of the call's description, compare, return.
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_NOT_BELOW, _JUMP_IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_OTHER_ABI = 0x40000000
"""Numbers from here on are calls of the x32 ABI."""

# Numbers from 424 on are the same on both.
_REFUSED_EVERYWHERE = (
    425,  # io_uring_setup
    428,  # open_tree
    429,  # move_mount
    430,  # fsopen
    434,  # pidfd_open
    437,  # openat2
    438,  # pidfd_getfd
)
_REFUSED = {
    "x86_64": (
        *(2, 85, 257, 304),  # open, creat, openat, open_by_handle_at
        *(41, 42, 43, 44, 46, 49, 50, 53, 288),  # sockets
        *(57, 58, 59, 322),  # fork, vfork, execve, execveat
        *(62, 101, 129, 200, 234, 297, 310, 311),  # kill, ptrace, signals to others, memory of others
        *(76, 82, 83, 84, 86, 87, 88, 90, 92, 94, 132, 235, 258, 259, 260, 261, 263, 264, 265, 266, 268, 280, 316),
        *(155, 161, 165, 166, 167, 175, 246, 248, 249, 250, 272, 308, 313, 320, 321),  # mounts, modules, keys, bpf
    ),
    "aarch64": (
        *(56, 265),  # openat, open_by_handle_at
        *(198, 199, 200, 201, 202, 203, 206, 211, 242),  # sockets
        *(221, 281),  # execve, execveat
        *(117, 129, 130, 131, 138, 240, 270, 271),  # ptrace, signals to others, memory of others
        *(33, 34, 35, 36, 37, 38, 45, 53, 54, 88, 276),  # changes of names and rights of files
        *(39, 40, 41, 51, 97, 104, 105, 106, 217, 218, 219, 268, 273, 280, 294),  # mounts, modules, keys, bpf
    ),
}


def restrict() -> None:
    """Refuse the calls for the rest of this process. Does nothing on other systems and architectures."""
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in _AUDIT_ARCHITECTURES or struct.calcsize("P") != 8:
        return
    program = _filter(machine)
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    header = Program(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header), 0, 0)


def _filter(machine: str) -> bytes:
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, _AUDIT_ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_NOT_BELOW, 0, 1, _OTHER_ABI),
        (_RETURN, 0, 0, _KILL),
    ]
    for number in (*_REFUSED[machine], *_REFUSED_EVERYWHERE):
        steps += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE | _EPERM)]
    steps += [
        # The C library then uses clone, whose flags can be read.
        (_JUMP_IF_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _REFUSE | _ENOSYS),
        (_JUMP_IF_EQUAL, 0, 3, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
