"""Run a submitted notebook in a process of its own, and say what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from course_utils.classroom.rows import Limits, Row
from course_utils.classroom.submission import read
from course_utils.exercises import known

WORKER = "from course_utils.classroom.worker import main; main()"
MARK = "COURSE_UTILS_PROGRESS"  # variable that every process of one notebook has
POLL = 0.1  # seconds between looks at the process
PATIENCE = 5.0  # seconds in which a world ends by itself, when its client has ended
NO_EXERCISE = "it has no title of a lesson, and no cell that checks an exercise"


class Ended(NamedTuple):
    """How the run of a notebook ended: a state for what it did not check, and why."""

    state: str
    why: str


def collect(path: Path, limits: Limits, stop: threading.Event) -> list[Row]:
    """Run a notebook in a fresh process with a fresh world; return its rows.

    stop: set from outside to end the run early.
    """
    name = str(path)
    try:
        submission = read(path)
    except (ValueError, OSError) as error:
        return [Row(name, "", "unreadable", str(error))]
    expected = submission.expected(known())
    if not expected:
        return [Row(name, "", "not checked", NO_EXERCISE)]
    with tempfile.TemporaryDirectory(
        prefix="progress-", ignore_cleanup_errors=True
    ) as folder:
        results = Path(folder, f"{uuid.uuid4().hex}.jsonl")
        ended = run(path.resolve(), results, limits, stop)
        events = list(events_in(results))
    return [row(name, exercise, events, ended) for exercise in expected]


def run(path: Path, results: Path, limits: Limits, stop: threading.Event) -> Ended:
    """Run the worker until it ends, or its time is over; leave no process behind."""
    mark = uuid.uuid4().hex
    env = {MARK: mark, "MPLBACKEND": "Agg", "IPYTHONDIR": str(results.parent)}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, path, results, str(limits.cell)],
        cwd=results.parent,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + limits.notebook
    try:
        while process.poll() is None and not stop.wait(POLL):
            if time.monotonic() > deadline:
                why = f"the notebook took more than {limits.notebook:g} s"
                return Ended("out of time", why)
        if process.poll() is None:
            return Ended("out of time", "stopped by hand")
        if process.returncode:
            return Ended("died", f"the notebook's kernel ended ({process.returncode})")
        return Ended("not checked", "no cell checks it")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        end(mark)


def end(mark: str) -> None:
    """End what a notebook has left: worlds end with their client, others are killed."""
    deadline = time.monotonic() + PATIENCE
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(POLL)
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
    psutil.wait_procs(left, timeout=PATIENCE)


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes that a notebook started, and those that these started."""
    found = []
    for process in psutil.process_iter():
        try:
            zombie = process.status() == psutil.STATUS_ZOMBIE
            if not zombie and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):  # of another user, or gone
            pass
    return found


def events_in(results: Path) -> Iterator[dict]:
    """Yield what the worker reported; the last line may have been cut off."""
    if results.exists():
        for line in results.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                pass


def row(name: str, exercise: str, events: list[dict], ended: Ended) -> Row:
    """Say what came of one exercise; its last verdict counts."""
    verdicts = [event for event in events if event.get("id") == exercise]
    if verdicts:
        return Row(name, exercise, verdicts[-1]["state"], verdicts[-1]["why"])
    if "done" not in (events[-1] if events else ()):
        cells = [event["cell"] for event in events if "cell" in event]
        where = f" in code cell {cells[-1]}" if cells else ""
        state = ended.state if ended.state != "not checked" else "died"
        return Row(name, exercise, state, ended.why + where)
    for event in events:
        if exercise in event.get("ids", ()):
            state = "out of time" if event["late"] else "not checked"
            return Row(name, exercise, state, event["why"])
    return Row(name, exercise, ended.state, ended.why)
