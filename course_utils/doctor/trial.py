"""A world on trial: launched, used, made to disagree, stopped."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.doctor.examination import Ill
from course_utils.doctor.host import RANKS
from course_utils.doctor.packages import how_to_install
from course_utils.text import tag
from course_utils.world import launch

if TYPE_CHECKING:
    from psutil import Process

    from course_utils.world import Ranks

PATIENCE = 8.0  # seconds for processes to end; a fork parent waits two for a new world
DISAGREE = "the ranks disagree"  # how the guard's error begins
ANEW = "run doctor again with little else running; then send somebody this page"


class Trial:
    """One world, from its launch to its end."""

    def __init__(self) -> None:
        self.ranks: Ranks | None = None
        self.processes: list[Process] = []

    def launch(self) -> str:
        """Launch the world of a lesson."""
        try:
            import psutil

            before = set(psutil.Process().children(recursive=True))
            started = time.monotonic()
            self.ranks = launch(RANKS)
        except ImportError as error:
            raise Ill(f"{error.name} is missing", how_to_install()) from None
        except (RuntimeError, ValueError) as error:
            raise Ill(str(error), ANEW) from None
        took = time.monotonic() - started
        now = psutil.Process().children(recursive=True)
        self.processes = [process for process in now if process not in before]
        return f"{took:.1f} s: {self.ranks!r}"

    def gather(self) -> str:
        """Gather one number from every rank on every rank."""
        want, found = list(range(RANKS)), self.call("gather")
        wrong = [rank for rank, got in enumerate(found) if got != want]
        if wrong:
            came = found[wrong[0]]
            raise Ill(f"{tag(wrong)} {came} came, and {want} was expected", ANEW)
        return f"right on {len(found)} ranks"

    def guard(self) -> str:
        """Let one rank disagree, and compare what the ranks are told."""
        found = self.call("disagree")
        silent = [rank for rank, told in enumerate(found) if not told]
        if silent:
            raise Ill(f"{tag(silent)} got no error, though the dtypes differ", ANEW)
        if len(set(found)) > 1:
            raise Ill("\n".join(["the ranks got different errors:", *found]), ANEW)
        if DISAGREE not in found[0]:
            raise Ill(f"another error came than the guard's:\n{found[0]}", ANEW)
        return f"{len(found)} ranks got the same error"

    def call(self, function: str) -> list:
        """Call a function of `on_ranks` on every rank."""
        from course_utils.text import RankError

        try:
            return self.ranks.call_all(f"doctor.on_ranks:{function}")
        except RankError as error:
            raise Ill(str(error), ANEW) from None

    def stop(self) -> str:
        """Stop the world, and look what is left of it."""
        folder = Path(self.ranks.cluster.folder)
        self.ranks.stop()
        left = left_of(self.processes)
        if left:
            cure = "kill " if sys.platform != "win32" else "taskkill /F /PID "
            pids = " ".join(str(process.pid) for process in left)
            raise Ill(f"{len(left)} processes still run", cure + pids)
        if folder.exists():
            raise Ill("its folder for temporary files is left", f"delete {folder}")
        return "nothing is left running"


def left_of(processes: list[Process]) -> list[Process]:
    """Wait for processes to end; return those that do not."""
    import psutil

    _, left = psutil.wait_procs(processes, timeout=PATIENCE)
    return left
