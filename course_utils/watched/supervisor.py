"""The process above a rank: it sees how the rank ends, and says so.

A process that is killed can tell nobody; the one that started it knows the signal. It
starts the rank by fork, before torch is imported, passes on the signals that a
launcher sends, and ends as the rank did.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from typing import Any

from course_utils.watched.mute import Mute
from course_utils.watched.options import Options
from course_utils.watched.page import Page

PASSED_ON = {
    getattr(signal, f"SIG{name}")
    for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT")
}
ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # ends that somebody wanted
PERIOD = 1.0  # seconds between looks at a rank that goes on
SET_DEATH_SIGNAL = 1  # prctl
FROM_KERNEL = 128  # si_code of a signal that the terminal sent to all


def able() -> bool:
    """Tell whether this system has what a supervisor needs: Linux."""
    return sys.platform == "linux"


def supervise(options: Options) -> Page:
    """Start a process for the rank, and return there; this one never returns."""
    page, above = Page(), os.getpid()
    waited_for = {*PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    below = os.fork()
    if below == 0:
        end_with(above)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return page
    mute = Mute(below, page, options)
    status = until_end(below, waited_for, mute)
    if mute.ended:
        os._exit(1)
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
        tell(page, status, options)
    end_as(status)


def end_with(above: int) -> None:
    """Have the kernel kill this process once the one above has ended."""
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != above:
        os._exit(1)


def until_end(below: int, waited_for: set, mute: Mute) -> int:
    """Wait for the end of a process; return its status. Pass signals on meanwhile."""
    while True:
        seen = signal.sigtimedwait(waited_for, PERIOD / 4 if mute.speaks else PERIOD)
        ended, status = os.waitpid(below, os.WNOHANG)
        if ended:
            return status
        if seen is None:
            mute.look()
        elif seen.si_signo != signal.SIGCHLD and seen.si_code != FROM_KERNEL:
            os.kill(below, seen.si_signo)
            os.kill(below, signal.SIGCONT)


def tell(page: Page, status: int, options: Options) -> None:
    """Tell the other ranks how a rank ended that could not say it itself."""
    left = page.read()
    told: dict[str, Any] = left.get("told", {})
    asked = os.WIFSIGNALED(status) and os.WTERMSIG(status) in ASKED
    if asked or not left.get("meeting") or told.get("kind") in ("failed", "finished"):
        return
    if left.get("reported"):
        return
    from course_utils.watched.obituary import publish  # brings torch along

    publish(left, ending(status), options)


def ending(status: int) -> str:
    """Say how a process ended, as in "signal 9, SIGKILL"."""
    if os.WIFEXITED(status):
        return f"exit code {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    try:
        return f"signal {number}, {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def end_as(status: int) -> None:
    """End this process with the exit code or signal of another one."""
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    time.sleep(1)
    os._exit(128 + number)
