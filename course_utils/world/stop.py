"""■ and Ctrl-C: whatever they reach, they end it in a few lines."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from course_utils.text import RankError


class Stopped(KeyboardInterrupt):
    """Something was stopped by hand. A notebook shows its text alone."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


@contextmanager
def stoppable(what: str, then: str = "") -> Iterator[None]:
    """Turn an interrupt in a ``with`` block into one short line.

    One that comes while a report is on its way to the reader does not replace it.

    what: that was stopped; then: how things are now.
    """
    before = sys.exc_info()[1]  # what the caller is handling, if anything
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt as pressed:
        report = pressed.__context__
        if isinstance(report, RankError) and report is not before:
            raise report from None
        text = f"stopped by hand: {what}"
        raise Stopped(f"{text}; {then}" if then else text) from None


def heedless(number: int, frame: FrameType | None) -> None:
    """Heed no interrupt. Processes started meanwhile do: they would inherit SIG_IGN."""


@contextmanager
def noticed() -> Iterator[Callable[[], bool]]:
    """Notice an interrupt in a ``with`` block, and leave it to the block to end.

    Yields what tells whether there was one. Only a second one is raised: Python drops
    what a signal raises while the interpreter calls back, as it does at the end of an
    object in a WeakSet, and nobody would stop. Where none is heeded, none is noticed.
    """
    before, seen = signal.getsignal(signal.SIGINT), []
    elsewhere = threading.current_thread() is not threading.main_thread()
    if elsewhere or not callable(before) or before is heedless:
        yield lambda: False
        return

    def notice(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            before(number, frame)

    signal.signal(signal.SIGINT, notice)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupted_after(seconds: float, again: float = 10.0) -> Iterator[threading.Event]:
    """Interrupt a ``with`` block of the main thread, as ■ does, when it takes longer.

    The interrupt ends the block and goes no further. It is repeated every `again`
    seconds, since what tidies up takes none meanwhile. Yields an event, which is set
    once the time is over. Where no thread can be started, nothing interrupts.
    """
    over, ended = threading.Event(), threading.Event()

    def press() -> None:
        wait = seconds
        while not ended.wait(wait):
            over.set()
            interrupt_main()
            wait = again

    thread = threading.Thread(target=press, daemon=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with suppress(RuntimeError):
            thread.start()
        yield over
    except KeyboardInterrupt:
        if not over.is_set():  # by hand
            raise
    finally:
        ended.set()
        with suppress(KeyboardInterrupt, RuntimeError):  # an interrupt on its way
            thread.join()
        signal.signal(signal.SIGINT, before)


def interrupt_main() -> None:
    """Send this process's main thread what Ctrl-C sends."""
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGINT)
    else:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
