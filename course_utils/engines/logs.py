"""How an engine ended, and the last words that it wrote."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipyparallel.cluster.launcher import EngineLauncher

LOG_LIMIT = 1.0  # seconds until the log of an engine that ended must be there


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
    pids = {i: launcher.pid for i, launcher in list(engines.launchers.items())}
    ended = (engines.stop_data or {}).get("engines", {})
    pids.update({i: data.get("pid") for i, data in ended.items()})
    found = [i for i in pids if pid is not None and pids[i] == pid]
    found = found or [i for i in pids if number(i) == rank]
    return tail(log_text(engines, found[-1]) if found else "", lines)


def log_text(engines: EngineLauncher, identifier: str) -> str:
    """Read the log of one engine.

    ipyparallel moves it to `outputs` a moment after the engine has ended. Its
    ``get_output`` remembers what it once read, so that of a living engine must not
    be called.
    """
    launcher = engines.launchers.get(identifier)
    if launcher is not None:
        try:
            return Path(launcher.output_file).read_text(errors="replace")
        except OSError:  # moved meanwhile, or on another machine
            pass
    deadline = time.monotonic() + LOG_LIMIT
    while identifier in engines.launchers and time.monotonic() < deadline:
        time.sleep(0.01)
    return engines.outputs.get(identifier) or ""


def tail(text: str, lines: int) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.strip().splitlines()[-lines:])
