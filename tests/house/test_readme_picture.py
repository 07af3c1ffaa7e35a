"""The animation with which README begins, against ranks that run now."""

import subprocess
import sys

import pytest
import readme_picture


@pytest.mark.soak
def test_the_animation_is_what_ranks_do_today():
    tool = readme_picture.__file__
    done = subprocess.run(
        [sys.executable, tool, "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
