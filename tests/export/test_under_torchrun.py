"""Every lesson, exported as a script, prints under torchrun what the notebook shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import worlds

from course_utils.__main__ import main
from course_utils.export import notebook

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
FEW, SOAK = ("07",), pytest.mark.soak  # the one with faults
WATCHED = ("12",)  # as the lesson says
WATCH = ("-m", "course_utils.watched", "--guard")
LIMIT = 240  # seconds for one lesson
TAG = re.compile(r"\[ranks? ([\d–, ]+)\](?: (.*))?")
UNLIKE = {}  # cells whose output is another in a script: (lesson, cell), and why


def torchrun(
    path: Path, folder: Path, processes: int = 4, watch: tuple[str, ...] = ()
) -> list[str]:
    """Run a script in another folder; return what every rank printed.

    watch: what stands between Python and the script.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--no-python"]
    command += [f"--nproc-per-node={processes}", "--redirects=3"]
    command += [f"--log-dir={folder}", "--standalone"]
    command += [sys.executable, *watch, str(path)]
    away = folder / "elsewhere"
    away.mkdir()
    names = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        command,
        cwd=away,
        env={**os.environ, **names},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    logs = sorted(folder.glob("*/attempt_0/*/stdout.log"))
    errors = [p.with_name("stderr.log").read_text()[-1500:] for p in logs]
    assert done.returncode == 0, "\n".join([done.stderr[-1500:], *errors])
    return [path.read_text(encoding="utf-8") for path in logs]


def by_cell(text: str, names: set[str]) -> dict[str, list[str]]:
    """Split what a rank printed at the names of the cells."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("# ") and line[2:] in names:
            lines = found.setdefault(line[2:], [])
        else:
            lines.append(line.rstrip())
    return found


def by_rank(cell, world_size: int) -> list[list[str]]:
    """Read from a stored output what each rank printed."""
    said: list[list[str]] = [[] for _ in range(world_size)]
    blocks: list[list[str]] = []
    text = "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
    for line in text.splitlines():
        if found := TAG.fullmatch(line):
            blocks = [said[rank] for rank in worlds.ranks_in(found[1])]
            line = found[2]
        else:
            line = line.removeprefix("  ")
        for block in blocks if line is not None else ():
            block.append(line.rstrip())
    return said


def compared(cell) -> bool:
    """Tell whether nbval compares the cell, and it does not fail on purpose."""
    return not cell.metadata.get("tags", [])


@pytest.mark.parametrize(
    "lesson",
    [
        pytest.param(path, id=path.stem, marks=() if path.name[:2] in FEW else SOAK)
        for path in LESSONS
    ],
)
def test_a_lesson_under_torchrun(lesson, tmp_path):
    target = tmp_path / f"{lesson.stem}.py"
    assert main(["export", str(lesson), "-o", str(target), "--mark"]) == 0
    cells = [c for c in nbformat.read(lesson, 4).cells if c.cell_type == "code"]
    names = {cell.id for cell in cells} | {"end of the lesson"}
    watch = WATCH if lesson.name[:2] in WATCHED else ()
    printed = [by_cell(text, names) for text in torchrun(target, tmp_path, watch=watch)]
    world_size = next(notebook.all_worlds(notebook.read(lesson))).world_size
    seen = 0
    for cell in filter(compared, cells):
        if cell.id not in printed[0] or not cell.source.startswith("%%px"):
            continue
        if (lesson.name[:2], cell.id) in UNLIKE:
            continue
        stored = by_rank(cell, world_size)
        ours = [printed[rank][cell.id] for rank in range(world_size)]
        assert ours == stored, f"cell {cell.id}"
        seen += any(stored)
    assert seen > 0
