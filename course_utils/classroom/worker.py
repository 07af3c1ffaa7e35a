"""Run the cells of a submitted notebook, and report each verdict as it comes.

A process of its own, started by `collecting`. It runs the learner's code with the
rights of whoever started it. Reports are lines of JSON, added to a file, so that
those made before a hang or a kill are there.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from course_utils.classroom.submission import (
    CHECK,
    Submission,
    ids,
    is_check,
    read,
    unwrapped,
)
from course_utils.engines import follow
from course_utils.exercises import check
from course_utils.world import interrupted_after

JUDGE = "_check_of_the_course"  # a name that no learner has
WHY = 300  # characters of a reason
PX_ADVICE = "course_utils.world.before_launch"


def main() -> None:
    """Run the notebook that the command line names."""
    notebook, results, cell_limit = sys.argv[1:]
    follow(os.getppid())
    submission = read(Path(notebook))
    sys.argv[:] = [""]  # what a kernel's cells see is not ours either
    with open(results, "a", encoding="utf-8") as file:
        Run(submission, file, float(cell_limit)).run()


class Run:
    """One notebook, run from top to bottom; errors end a cell, not the run.

    cell_limit: seconds after which a cell is interrupted, as by ■.
    """

    def __init__(self, submission: Submission, file: TextIO, cell_limit: float) -> None:
        self.submission, self.file, self.cell_limit = submission, file, cell_limit
        quiet = Config(HistoryManager={"enabled": False})
        self.shell = InteractiveShell.instance(config=quiet, colors="nocolor")
        self.shell.ask_exit = lambda: None  # exit() ends no kernel of a notebook either
        self.shell.extension_manager.load_extension(PX_ADVICE)
        self.shell.user_ns[JUDGE] = self.judge

    def run(self) -> None:
        """Run every code cell."""
        for number, source in enumerate(self.submission.code, start=1):
            self.report(cell=number)
            with interrupted_after(self.cell_limit) as over:
                ran = self.shell.run_cell(self.ours(source))
            if (error := error_of(ran)) is not None:
                why = f"code cell {number}: {error}"
                if over.is_set():
                    why = f"code cell {number} took more than {self.cell_limit:g} s"
                asked = list(ids(source, self.submission.names))
                self.report(failed=number, why=why, ids=asked, late=over.is_set())
        self.report(done=True)

    def ours(self, source: str) -> str:
        """Return a cell that calls the course's own `check` in the place of any other.

        A learner may have redefined it.
        """
        names = self.submission.names
        if not any(name in source for name in names):
            return source
        try:
            tree = ast.parse(self.shell.transform_cell(unwrapped(source)))
        except SyntaxError:
            return source
        calls = [node for node in ast.walk(tree) if is_check(node, names)]
        for call in calls:
            call.func = ast.Name(JUDGE, ast.Load())
        return ast.unparse(ast.fix_missing_locations(tree)) if calls else source

    def judge(self, *args: Any, **named: Any) -> Any:
        """Check an exercise, and report the verdict."""
        exercise_id = args[0] if args else named.get("exercise_id")
        self.report(began=exercise_id)
        try:
            verdict = check(*args, **named)
        except KeyboardInterrupt:
            why = f"the check took more than {self.cell_limit:g} s"
            self.report(id=exercise_id, state="out of time", why=why)
            raise
        except Exception as error:
            own = self.shell.user_ns.get(CHECK)
            if callable(own) and own is not check and not isinstance(exercise_id, str):
                return own(*args, **named)  # a function of the learner's, no check
            self.report(id=exercise_id, state="not checked", why=short(str(error)))
            raise
        why = "" if verdict else short(verdict.why or verdict.text)
        self.report(id=exercise_id, state=verdict.state, why=why)
        return verdict

    def report(self, **event: Any) -> None:
        """Add one line to the file."""
        self.file.write(json.dumps(event, default=str) + "\n")
        self.file.flush()


def error_of(ran: ExecutionResult) -> str | None:
    """Say how a cell failed; None if it did not."""
    error = ran.error_before_exec or ran.error_in_exec
    return None if error is None else short(f"{type(error).__name__}: {error}")


def short(text: str) -> str:
    """Write a text in one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= WHY else line[: WHY - 1] + "…"
