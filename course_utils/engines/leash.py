"""End this process when another one ends, however it ends.

The kernel sees to that for what the fork parent forks, on Linux, and a thread for other
processes. Also a command, which runs a module on such a leash, and removes a folder at
its end:
``python -m course_utils.engines.leash PID FOLDER MODULE ARG…``
"""

from __future__ import annotations

import ctypes
import os
import runpy
import shutil
import signal
import sys
import threading
import time

import psutil

PR_SET_PDEATHSIG = 1  # prctl(2)
PERIOD = 0.5  # seconds between looks at the other process


def follow(pid: int, folder: str = "") -> None:
    """Start a thread that kills this process once process `pid` has ended.

    folder: to be removed first; then the whole process group of this process ends.
    """
    master = psutil.Process(pid)

    def watch() -> None:
        while master.is_running() and master.status() != psutil.STATUS_ZOMBIE:
            time.sleep(PERIOD)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        if folder and hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name="leash", daemon=True).start()


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def prctl(option: int, value: int) -> None:
    """Set a property of this process; see prctl(2)."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main() -> None:
    """Run a module as a program, on the leash of another process."""
    pid, folder, module, *arguments = sys.argv[1:]
    follow(int(pid), folder)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
