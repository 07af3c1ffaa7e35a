"""The page "On your cluster": what it shows can be read by Python and the shell.

`tests/hosts` runs it, where there are hosts.
"""

import ast
import subprocess

import page
import pytest

pytestmark = pytest.mark.unit
LANGUAGE = dict(zip(page.NAMES, (kind for kind, _ in page.FOUND), strict=True))


@pytest.mark.parametrize("name", page.NAMES)
def test_every_block_can_be_read(name):
    if LANGUAGE[name] == "python":
        ast.parse(page.BLOCKS[name])
    else:
        done = subprocess.run(
            ["sh", "-n"], input=page.BLOCKS[name], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_every_block_is_run_on_hosts():
    tests = page.PAGE.parents[1].joinpath("tests", "hosts").glob("test_*.py")
    source = "".join(path.read_text() for path in tests)
    quoted = [{f"'{name}'", f'"{name}"'} for name in page.NAMES]
    assert all(any(name in source for name in names) for names in quoted)
