"""Become another program that the kernel kills when its parent dies.

Run by path as `python -I -S _launch.py PARENT_PID PROGRAM ARGUMENT...`. It asks for the signal and
then replaces itself, so the process id stays. A `preexec_fn` would do the same between fork and
exec, where Python code may deadlock if the parent has threads.
"""

import ctypes
import os
import signal
import sys

#: prctl(2): the signal this process gets when the thread that started it ends; survives exec.
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, make sure that the parent still lives, become the program."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the parent is gone already")
    os.execvp(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main()
