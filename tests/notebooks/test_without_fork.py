"""Lessons 1 to 3 where nothing can be forked, as on macOS and Windows: strict.

There the ranks are ordinary processes, which `engines="local"` starts here, too. Every
cell says what it says on forked ranks.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("0[123]_*.ipynb"))
LAUNCH = re.compile(r"\blaunch\((\d)")
LIMIT = 280  # seconds for one lesson


@pytest.mark.soak
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_cell_says_the_same_on_ordinary_processes(lesson, tmp_path):
    text, count = LAUNCH.subn(r'launch(\1, engines=\\"local\\"', lesson.read_text())
    assert count
    (tmp_path / lesson.name).write_text(text)
    command = [sys.executable, "-m", "pytest", "--nb-guard", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, "--rootdir=.", "--nbval", "--nbval-current-env", "-q"]
    done = subprocess.run(
        [*command, "--nbval-cell-timeout=120", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert len(LESSONS) == 3
