"""Fail a run that leaves processes behind, and end them.

Every process that a test starts inherits a mark in its environment, so one that has
lost its parent is found, too. Processes are ended by pid and start time, never by
name.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import time
import uuid
from collections.abc import Generator

import psutil
import pytest

MARK = "NB_GUARD_RUN"  # environment variable: the ids of this and the outer runs
END = 2  # seconds in which a process ends that is told to


class LeftBehind:
    """The plugin: marks what the tests start, and looks for it after the last one.

    patience: seconds that a process may take to end after the last test.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.run = uuid.uuid4().hex
        self.starts: list[tuple[float, str]] = []  # when each test started
        self.done = False

    def pytest_sessionstart(self) -> None:
        """Mark this process, and so every process that starts from here."""
        os.environ[MARK] = " ".join([*os.environ.get(MARK, "").split(), self.run])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Remember when a test started, to say later which one a process is from."""
        self.starts.append((_now(), item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(
        self, session: pytest.Session
    ) -> Generator[None, object, object]:
        """Report what is left after the last test as one more error of the run."""
        result = yield
        if not _hands_out(session):
            self._check(session)
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Report what is left after a run that was cut short."""
        if not (_hands_out(session) or self.done) and self._check(session):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _check(self, session: pytest.Session) -> bool:
        """Report and end the processes of this run; say whether there were any."""
        self.done = True
        left = self._left()
        if not left:
            return False
        lines = [_describe(process, self.starts) for process in left]
        _end(left)
        report = pytest.TestReport(
            nodeid="processes left behind",
            location=("processes left behind", None, ""),
            keywords={},
            outcome="failed",
            longrepr="Alive after the last test, now ended:\n" + "\n".join(lines),
            when="teardown",
        )
        session.config.hook.pytest_runtest_logreport(report=report)
        return True

    def _left(self) -> list[psutil.Process]:
        """Return the processes of this run that are alive after the patience."""
        deadline = time.monotonic() + self.patience
        while (left := _alive(self.run)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left


def _now() -> float:
    """Return the time on the clock by which psutil dates the start of a process.

    On Linux that is the time since the machine started, on top of when it did in whole
    seconds: up to a second behind the time of day.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        return time.time()
    return psutil.boot_time() + time.clock_gettime(clock)


def _hands_out(session: pytest.Session) -> bool:
    """Tell whether this process runs no test, but hands them out to workers.

    Each worker looks for what it left behind itself.
    """
    return bool(session.config.getoption("numprocesses", None))


def _alive(run: str) -> list[psutil.Process]:
    """Return the living processes that descend from this one or carry its mark."""
    children = set(psutil.Process().children(recursive=True))
    return sorted(
        (
            process
            for process in children | set(psutil.process_iter())
            if process.pid != os.getpid()
            and (process in children or _is_marked(process, run))
            and not _ends_by_itself(process)
        ),
        key=lambda process: process.pid,
    )


def _is_marked(process: psutil.Process, run: str) -> bool:
    try:
        return run in process.environ().get(MARK, "").split()
    except (psutil.Error, OSError):
        return False  # gone, a zombie, or of another user


def _ends_by_itself(process: psutil.Process) -> bool:
    """Say whether `process` is over, or the tracker that Python ends at its exit."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE or (
            process.ppid() == os.getpid()
            and any("multiprocessing.resource_tracker" in s for s in process.cmdline())
        )
    except psutil.Error:
        return True


def _describe(process: psutil.Process, starts: list[tuple[float, str]]) -> str:
    """Return one line: pid, command, and the test during which it started."""
    try:
        command = " ".join(process.cmdline())[:120] or process.name()
        index = bisect.bisect(starts, (process.create_time(), "~"))
    except psutil.Error:
        return f"pid {process.pid}: ended meanwhile"
    test = starts[max(index - 1, 0)][1] if starts else "no test"
    return f"pid {process.pid} (started about when {test} ran): {command}"


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs(processes, timeout=END)
    for process in stubborn:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(stubborn, timeout=END)
