"""Every benchmark runs, with as few rounds as it can, and stores what it promises.

What it finds then means nothing, and is not looked at.
"""

import json
import math
import subprocess
import sys
from pathlib import Path

import mpi_ranks
import needs_hosts
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LIMIT = 240  # seconds for one of them
FEW = {
    "px.py": ("--runs 1", ["px_over_execute", "px16_over_execute"]),
    "concat.py": ("--rounds 1 --sizes 4096", ["even_1kb_over_bare"]),
    "cable.py": ("--runs 1 --turns 1 --ranks 4", ["cable4_1mib_over_bare"]),
    "collectives.py": (
        "--turns 1 --calls 1 --sizes 1024 1048576",
        ["collectives_over_torchrun", "worst_cell_over_torchrun"],
    ),
    "model.py": (
        "--worlds 1 --repetitions 3",
        ["model_error_percent", "model_error_max_percent"],
    ),
    "hub.py": (
        "--runs 1 --lessons 01",
        [
            "rank_pss_mib",
            "world_pss_mib",
            "person_peak_pss_mib",
            "people_30_peak_pss_gib",
        ],
    ),
    "watched.py": (
        "--runs 1 --ranks 2 --jobs 1",
        [
            "end_after_report_s",
            "held_ms",
            "look_max_ms",
            "report_after_patience_s",
            "watched_over_bare",
        ],
    ),
    "growth.py": (
        "--runs 1 --sizes 2",
        ["all_gather_cat_over_bare_2", "guarded_over_tiny_2"],
    ),
    "over_mpi.py": ("--turns 1 --calls 1 --sizes 1048576", ["mpi_over_gloo_1mb"]),
    "memory.py": (
        "--runs 1",
        ["peak_error_max_percent", "witness_error_max_percent"],
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", FEW)
def test_a_benchmark_stores_its_figures(name, tmp_path):
    if "mpi" in name and mpi_ranks.LACKING:
        pytest.skip(f"no {' and no '.join(mpi_ranks.LACKING)}")
    if name == "cable.py" and (reason := needs_hosts.why_not()):
        pytest.skip(f"no hosts inside this machine: {reason}")
    arguments, promised = FEW[name]
    stored = tmp_path / "figures.json"
    command = [sys.executable, BENCHMARKS / name, *arguments.split(), "--json", stored]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(stored.read_text())
    assert sorted(figures) == sorted(promised)
    assert all(math.isfinite(value) for value in figures.values())


def test_make_bench_runs_them_all():
    makefile = (BENCHMARKS.parent / "Makefile").read_text()
    ours = {path.name for path in BENCHMARKS.glob("*.py")} - {"figures.py"}
    assert ours == {*FEW, "launch.py"}, "launch.py takes minutes, with one run, too"
    assert all(f"benchmarks/{name}" in makefile for name in ours)
