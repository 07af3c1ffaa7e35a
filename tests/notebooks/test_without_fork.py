"""Lessons 1 to 3 where nothing can be forked, as on macOS and Windows: strict.

There the ranks are ordinary processes, which `engines="local"` starts here, too. Every
cell says what it says on forked ranks.
"""

import os
import re
import subprocess
import sys

import pytest
from lesson_cases import LESSONS, cases

LAUNCH = re.compile(r"\blaunch\((\d)")
LIMIT = 280  # seconds for one lesson


@pytest.mark.parametrize("lesson", cases((1,), LESSONS[:3]))
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
