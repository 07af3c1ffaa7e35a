"""Start kernels and scripts that launch worlds, and look at their processes.

Every process that a kernel or script of these helpers starts inherits a mark in its
environment, so it is found also when it has lost its parent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import nbformat.v4 as nb4
import psutil
from nbclient import NotebookClient
from traitlets.config import Config

MARK = "COURSE_TEST_WORLD"
PATIENCE = 5.0  # seconds in which every process of a world must have ended
LIMIT = 120.0  # seconds for one cell, one script or one start
STREAMS = {"stdout", "stderr"}


def environment(folder: Path | None = None, **more: str) -> dict[str, str]:
    """Return the environment of a user: marked, and without that of the tests.

    folder: where temporary files go, so that what is left of a world is seen.
    """
    ours = {"CI", "PYTEST_CURRENT_TEST", "OMP_NUM_THREADS"}
    env = {name: value for name, value in os.environ.items() if name not in ours}
    if folder is not None:
        env["TMPDIR"] = str(folder)
    return {
        **env,
        MARK: uuid.uuid4().hex,
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        **more,
    }


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes that carry a mark."""
    return [process for process in psutil.process_iter() if _carries(process, mark)]


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return (
            process.status() != psutil.STATUS_ZOMBIE
            and process.environ().get(MARK) == mark
        )
    except (psutil.Error, OSError):
        return False


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run; a zombie has ended."""
    return [p for p in processes if p.is_running() and not _zombie(p)]


def _zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def family(pid: int | None = None) -> list[psutil.Process]:
    """Return every process below this one, or below `pid`."""
    return psutil.Process(pid).children(recursive=True)


def left_after(processes: list[psutil.Process], patience: float = PATIENCE) -> list:
    """Wait until the processes have ended; return those that have not."""
    deadline = time.monotonic() + patience
    while (left := alive(processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def left_of(mark: str, patience: float = PATIENCE) -> list[str]:
    """Wait until no process carries the mark; describe those that still do."""
    deadline = time.monotonic() + patience
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [describe(process) for process in left]


def describe(process: psutil.Process) -> str:
    """Return pid, state and command of a process."""
    try:
        return f"{process.pid} {process.status()} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return f"{process.pid} ended meanwhile"


def end(mark: str) -> None:
    """Kill what carries the mark, so that one failure does not cause others."""
    left = marked(mark)
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
    psutil.wait_procs(left, timeout=PATIENCE)


def wait_for(condition, limit: float = LIMIT):
    """Return the first true value of `condition()`; None after `limit` seconds."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    return None


def kernel_that_dies_once(folder: Path) -> dict[str, str]:
    """Return the environment in which the kernel's first start fails, as it does when
    another program has taken one of its ports."""
    start = f"""\
import os, pathlib, sys
been = pathlib.Path({str(folder / "been")!r})
if not been.exists():
    been.touch()
    sys.exit(1)
os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", *sys.argv[1:]])"""
    spec = folder / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-c", start, "-f", "{connection_file}"]
    said = {"argv": argv, "display_name": "Python 3", "language": "python"}
    spec.write_text(json.dumps(said))
    return {**os.environ, "JUPYTER_PATH": str(folder)}


class Notebook(NotebookClient):
    """A notebook with a kernel of its own, run cell by cell as a front end does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            nb4.new_notebook(),
            timeout=LIMIT,
            startup_timeout=LIMIT,
            allow_errors=True,
            kernel_name="python3",
            config=Config(KernelManager={"transport_encryption": "auto"}),
            resources={"metadata": {"path": str(folder)}},
        )
        self.messages: list[dict] = []  # of the cell that ran last

    def process_message(self, msg, cell, cell_index):
        self.messages.append(msg)
        return super().process_message(msg, cell, cell_index)

    def run(self, source: str) -> list[dict]:
        """Run a cell; return the outputs that a notebook would store for it."""
        self.messages = []
        cell = nb4.new_code_cell(source)
        self.nb.cells.append(cell)
        self.execute_cell(cell, len(self.nb.cells) - 1)
        return drawn_together(cell.outputs)

    def good(self, source: str) -> str:
        """Run a cell that must not fail; return its text."""
        outputs = self.run(source)
        assert not [o for o in outputs if o.output_type == "error"], outputs
        return text(outputs)

    def failure(self, source: str) -> str:
        """Run a cell that must fail; return what the reader sees of the error."""
        outputs = self.run(source)
        errors = [o for o in outputs if o.output_type == "error"]
        assert errors, f"this cell should have failed:\n{source}\n{outputs}"
        return "\n".join(errors[0].traceback)

    def said(self, kind: str) -> list[dict]:
        """Return the content of every message of one kind from the last cell."""
        return [m["content"] for m in self.messages if m["msg_type"] == kind]


def drawn_together(outputs: list[dict]) -> list[dict]:
    """Join neighbours that belong to one stream, as front ends do."""
    joined: list[dict] = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output.get("name") and output.get("name") == last.get("name"):
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _started(folder: Path, env: dict[str, str], stack: ExitStack) -> Notebook:
    """Return a notebook whose kernel runs."""
    for left in (2, 1, 0):
        book = Notebook(folder)
        try:
            stack.enter_context(book.setup_kernel(env=env))
            break
        except RuntimeError:  # another program took a port that was free before
            if not left:
                raise
    return book


@contextmanager
def notebook(folder: Path, **more: str) -> Iterator[Notebook]:
    """Start a kernel, and make sure that nothing of it is left."""
    env = environment(folder, **more)
    try:
        with ExitStack() as stack:
            yield _started(folder, env, stack)
    finally:
        end(env[MARK])


def text(outputs: list[dict]) -> str:
    """Return the printed text and the values of a cell, in order."""
    parts = []
    for output in outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        elif "data" in output:
            parts.append(output.data.get("text/plain", "") + "\n")
    return "".join(parts)


def stream(outputs: list[dict], name: str) -> str:
    """Return what a cell wrote to stdout or stderr."""
    assert name in STREAMS
    return "".join(
        o.text for o in outputs if o.output_type == "stream" and o.name == name
    )


def script(source: str, env: dict[str, str], **more) -> subprocess.Popen:
    """Start a Python script that is given as text."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", source], env=env, text=True, stdout=pipe, **more
    )


def ranks_in(text: str) -> list[int]:
    """Read the ranks of a tag, as in "0–2, 5"."""
    ranks: list[int] = []
    for part in text.split(", "):
        first, _, last = part.partition("–")
        ranks += range(int(first), int(last or first) + 1)
    return ranks
