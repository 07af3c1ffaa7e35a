"""Measure the memory that one learner needs: for the sizing of a JupyterHub.

A kernel runs a lesson from top to bottom, with its world of ranks, beside a JupyterLab
of its own, as on a hub. Memory is PSS: what processes share is divided among them, so
that sums are right. Sampled while the lesson runs; the peak counts. 1 MiB is 2**20
bytes. Linux only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from statistics import median

import figures
import nbformat
import psutil
from nbclient import NotebookClient
from traitlets.config import Config

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
LESSONS = ("03", "09", "11", "12")  # an ordinary one, and those with large tensors
PERIOD = 0.3  # seconds between two samples
LIMIT = 120  # seconds for a cell, and for the start of JupyterLab
MIB = 2**20
PEOPLE = 30
LAB = "is running at"  # how JupyterLab says that it is ready
WORLD = """\
import os
from course_utils import launch
ranks = launch(4)
print(ranks.run(os.getpid))"""


def main() -> None:
    """Measure, print the table, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of each lesson (3)")
    parser.add_argument("--lessons", nargs="+", default=LESSONS, metavar="NN")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    options = parser.parse_args()
    found = defaultdict(list)
    for run in range(options.runs):
        print(f"run {run + 1} of {options.runs}", end="\r", file=sys.stderr)
        found["JupyterLab"].append(lab())
        for name, size in world().items():
            found[name].append(size)
        for lesson in options.lessons:
            found[f"lesson {lesson}"].append(peak_of(lesson))
    rows = [[name, figures.spread(sizes, 0)] for name, sizes in found.items()]
    print(f"median (smallest–largest) of {options.runs} runs, MiB")
    print(figures.table(["", "PSS"], rows), end="\n\n")
    reduced = summary(found)
    figures.show(reduced)
    if options.json:
        figures.store(options.json, reduced)


def summary(found: dict[str, list[float]]) -> dict[str, float]:
    """Return the figures that TEACHING.md states."""
    lessons = [max(sizes) for name, sizes in found.items() if "lesson" in name]
    person = max(lessons) + max(found["JupyterLab"])
    return {
        "rank_pss_mib": median(found["a rank"]),
        "world_pss_mib": median(found["a world of 4"]),
        "person_peak_pss_mib": person,
        "people_30_peak_pss_gib": PEOPLE * person / 1024,
    }


def lab() -> float:
    """Return the memory of a JupyterLab that has started."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--port=0"]
        command += ["--allow-root", f"--notebook-dir={folder}"]
        process = subprocess.Popen(
            command, env=own_environment(folder), stderr=subprocess.PIPE, text=True
        )
        try:
            timer = threading.Timer(LIMIT, process.kill)
            timer.start()
            next(line for line in process.stderr if LAB in line)
            return pss(psutil.Process(process.pid))
        finally:
            timer.cancel()
            process.terminate()
            process.communicate()


def world() -> dict[str, float]:
    """Return the memory of a world that has just started, and of what it is made of."""
    with Kernel([WORLD]) as kernel:
        kernel.run()
        said = kernel.client.nb.cells[0].outputs[-1].text
        ranks = [psutil.Process(pid) for pid in eval(said.splitlines()[-1])]
        each = [pss(rank) for rank in ranks]
        return {
            "a rank": sum(each) / len(each),
            "a world of 4": pss(kernel.process) - one(kernel.process),
            "the kernel": one(kernel.process),
        }


def peak_of(lesson: str) -> float:
    """Return the peak memory of a kernel and its worlds while a lesson runs."""
    (path,) = NOTEBOOKS.glob(f"{lesson}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    with Kernel(sources) as kernel:
        ended, sizes = threading.Event(), []

        def sample() -> None:
            while not ended.wait(PERIOD):
                sizes.append(pss(kernel.process))

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            kernel.run()
        finally:
            ended.set()
            thread.join()
    return max(sizes)


class Kernel:
    """A kernel with code cells to run."""

    def __init__(self, sources: list[str]) -> None:
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
        self.client = NotebookClient(
            notebook,
            timeout=LIMIT,
            allow_errors=True,
            kernel_name="python3",
            config=Config(KernelManager={"transport_encryption": "auto"}),
        )

    def __enter__(self) -> Kernel:
        self.folder = tempfile.TemporaryDirectory()
        self.setup = self.client.setup_kernel(env=own_environment(self.folder.name))
        self.setup.__enter__()
        self.process = psutil.Process(self.client.km.provisioner.pid)
        return self

    def run(self) -> None:
        """Run all cells."""
        for index, cell in enumerate(self.client.nb.cells):
            self.client.execute_cell(cell, index)

    def __exit__(self, *error: object) -> None:
        self.setup.__exit__(*error)
        self.folder.cleanup()


def own_environment(folder: str) -> dict[str, str]:
    """Return an environment without anybody's settings and history."""
    return {**os.environ, "IPYTHONDIR": folder, "JUPYTER_CONFIG_DIR": folder}


def pss(process: psutil.Process) -> float:
    """Return the memory of a process and of all below it, in MiB."""
    return sum(map(one, [process, *process.children(recursive=True)]))


def one(process: psutil.Process) -> float:
    """Return the memory of one process, in MiB; 0 if it has ended."""
    try:
        return process.memory_full_info().pss / MIB
    except (psutil.Error, OSError):
        return 0.0


if __name__ == "__main__":
    main()
