"""How an engine ended, and the last words that it wrote."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipyparallel.cluster.launcher import EngineLauncher

LOG = "COURSE_UTILS_LOG"  # variable that names the file for a rank's last words
LOG_LIMIT = 1.0  # seconds until the log of an engine that ended must be there


def log_of_task(folder: Path, host: str, pid: int | str, number: str = "*") -> Path:
    """Return the path of the log of a launcher's task.

    number: of the task, as the launcher counts.
    """
    return folder / "log" / f"task-{number}-{host}-{pid}.log"


def words_of_task(folder: Path, host: str, pid: int | str, lines: int = 200) -> str:
    """Return the end of what a launcher's task wrote."""
    name = log_of_task(folder, host, pid).name
    found = sorted((folder / "log").glob(name))
    return tail(found[-1].read_text(errors="replace"), lines) if found else ""


def number_of_task(folder: Path, pid: int | str, host: str = "*") -> str:
    """Return the number of a launcher's task, as the launcher counts; "" if unknown."""
    found = list((folder / "log").glob(log_of_task(folder, host, pid).name))
    return found[-1].name.split("-")[1] if found else ""


def signal_named(words: str) -> int:
    """Return the number of a signal, by words such as "Killed"; 0 if unknown."""
    named = {signal.strsignal(s): int(s) for s in signal.valid_signals()}
    return named.get(words.split(" (")[0].strip(), 0)


def number(identifier: str) -> int:
    """Return the rank in a launcher's identifier, "2" or "2.…"."""
    return int(identifier.partition(".")[0])


def exit_text(code: int | None) -> str:
    """Put an exit code into words; a negative code is a signal's number."""
    if code is None:
        return "its process has ended"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def last_words(
    engines: EngineLauncher, rank: int, pid: int | None, lines: int = 200
) -> str:
    """Return the end of what an engine wrote before it ended.

    pid: of the engine; without it, the last one that was started for `rank`.
    """
    if not hasattr(engines, "launchers"):  # one log for all engines together
        return tail(engines.get_output(), lines)
    deadline = time.monotonic() + LOG_LIMIT
    found = log_text(engines, rank, pid)
    while found is None and time.monotonic() < deadline:
        time.sleep(0.01)
        found = log_text(engines, rank, pid)
    if found is None and pid is not None:  # of a launcher that counts otherwise
        found = log_text(engines, rank, None)
    return tail(found or "", lines)


def log_text(engines: EngineLauncher, rank: int, pid: int | None) -> str | None:
    """Read the log of one engine; None while ipyparallel moves it.

    ipyparallel takes an engine that has ended out of `launchers`, a moment later
    puts its log into `outputs`, and then itself into `stop_data`. Its ``get_output``
    remembers what it once read, so that of a living engine must not be called.
    """
    launchers = dict(engines.launchers)
    ended = dict((engines.stop_data or {}).get("engines", {}))
    pids = {i: data.get("pid") for i, data in ended.items()}
    pids.update({i: launcher.pid for i, launcher in launchers.items()})
    for i in reversed(pids):
        wanted = number(i) == rank if pid is None else pids[i] == pid
        if not wanted:
            continue
        if i in ended:
            return engines.outputs.get(i) or ""
        try:
            return Path(launchers[i].output_file).read_text(errors="replace")
        except OSError:  # moved meanwhile, or on another machine
            return None
    return None


def tail(text: str, lines: int) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.strip().splitlines()[-lines:])
