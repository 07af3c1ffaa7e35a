"""A second way to run a lesson: `jupyter execute`, without nbval."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lesson_cases import cases

LIMIT = 240  # seconds for one lesson


def execute(path: Path) -> subprocess.CompletedProcess:
    """Run `jupyter execute` of this environment on the notebook at `path`."""
    jupyter = Path(sys.executable).with_name("jupyter")
    return subprocess.run(
        [str(jupyter), "execute", "--kernel_name=python3", "--timeout=120", str(path)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


@pytest.mark.parametrize("lesson", cases(soak=(1, 2)))
def test_jupyter_execute_runs_the_lesson(lesson, tmp_path):
    copy = shutil.copy(lesson, tmp_path)
    done = execute(Path(copy))
    assert done.returncode == 0, done.stderr[-3000:]
