"""tools/try_gpus.sh, which somebody with GPUs runs; here it runs dry, on CPUs."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import try_gpus

from course_utils.engines import machine

SCRIPT = Path(try_gpus.__file__).with_suffix(".sh")
LIMIT = 120  # seconds


@pytest.mark.skipif(machine.gpus() > 0, reason="there are GPUs: run it by hand")
def test_dry_run(tmp_path):
    done = subprocess.run([SCRIPT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table, _, last = done.stdout.partition("\n\n")
    rows = dict(re.findall(r"^(\w+) +(ok|FAILED|–) ", table, re.M))
    assert rows == dict.fromkeys(("backend", "concat", "guard", "stuck", "fit"), "ok")
    assert "2 ranks · gloo · cpu" in table and "rank 1 is named" in table
    assert last == "This was a dry run: torch can use no GPU here.\n"


class FourRanks:
    """Ranks whose every call gives the same."""

    def __init__(self, found: object) -> None:
        self.found = found

    def __len__(self) -> int:
        return 4

    def run(self, _: object) -> list:
        return [self.found] * 4


@pytest.mark.unit
@pytest.mark.parametrize(
    ("check", "found", "said"),
    [
        ("concat", ["torch.bool, dim 1"], "differs from torch.cat"),
        ("guard", ("", 4.0), "not refused on every rank"),
        ("guard", ("all_reduce, so it did not run", 3.0), "do not add up afterwards"),
        ("stuck", 4.0, "nobody waited for the last rank"),
        ("fit", [(1, 1, 1.0)], "ValueError: fit: expected two sizes or more"),
    ],
)
def test_what_goes_wrong_is_a_row(capsys, check, found, said):
    name, how, seen = try_gpus.tried(check, FourRanks(found))
    assert (name, how) == (check, "FAILED") and said in seen
    assert said in capsys.readouterr().err


@pytest.mark.unit
def test_it_can_be_run():
    assert os.access(SCRIPT, os.X_OK)
