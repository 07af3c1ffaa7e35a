"""Time all_gather over MPI against gloo's, on the same ranks of mpiexec.

Both groups have the same four members, and take turns; a row is the median of the
ratios of neighbouring turns. Needs mpi4py and an MPI: requirements-mpi.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import figures

from course_utils.engines.machine import find_mpiexec

WORLD = 4
SIZES = (2**10, 2**16, 2**20, 2**24)  # bytes of a shard
PROMISED = 2**20


def main() -> None:
    """Start the ranks, print the table, write the figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=7, help="of each side (7)")
    parser.add_argument("--calls", type=int, default=20, help="in a turn (20)")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figure")
    parser.add_argument("--worker", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        measure(Path(options.worker), options)
        return
    if (mpiexec := find_mpiexec()) is None:
        print("nothing to measure: no mpiexec (requirements-mpi.txt brings one)")
        return
    rows = measured(mpiexec)
    heads = ("shard, KiB", "MPI, ms", "gloo, ms", "ratio")
    print(figures.table(heads, [shown(row) for row in rows]))
    ratios = {row["size"]: row["ratio"] for row in rows}
    found = {"mpi_over_gloo_1mb": ratios[PROMISED]} if PROMISED in ratios else {}
    print()
    figures.show(found)
    if options.json:
        figures.store(options.json, found)


def measured(mpiexec: str) -> list[dict]:
    """Run this file on ranks of mpiexec; return what rank 0 wrote."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        here = [sys.executable, *sys.argv, "--worker", folder]
        env = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **os.environ}
        subprocess.run([mpiexec, "-n", str(WORLD), *here], env=env, check=True)
        return json.loads(Path(folder, "rows.json").read_text())


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Time both sides in turn, on every rank; rank 0 writes what it found."""
    from mpi4py import MPI
    from torch import distributed as dist

    from course_utils.mpi_backend import register

    rank = MPI.COMM_WORLD.rank
    meet = f"file://{folder}/store"
    dist.init_process_group(
        register(), init_method=meet, rank=rank, world_size=MPI.COMM_WORLD.size
    )
    groups = {"mpi": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    rows = []
    for size in options.sizes:
        taken: dict[str, list[float]] = {name: [] for name in groups}
        for turn in range(options.turns):
            for name in list(groups)[:: 1 if turn % 2 else -1]:
                taken[name].append(timed(groups[name], size, options.calls))
        pairs = zip(taken["mpi"], taken["gloo"], strict=True)
        row = {name: statistics.median(seconds) for name, seconds in taken.items()}
        row["ratio"] = statistics.median(ours / theirs for ours, theirs in pairs)
        rows.append(row | {"size": size})
    if rank == 0:
        (folder / "rows.json").write_text(json.dumps(rows))
    dist.destroy_process_group()


def timed(group, size: int, calls: int) -> float:
    """Return the median seconds of one all_gather; the slowest rank counts."""
    import torch
    from torch import distributed as dist

    from course_utils.measure.timing import seconds

    shard = torch.ones(size // 4)
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    return seconds(lambda: dist.all_gather(parts, shard, group=group), calls).median


def shown(row: dict) -> tuple[str, ...]:
    """Write a row of the table."""
    times = (f"{1e3 * row[name]:.3f}" for name in ("mpi", "gloo"))
    return (f"{row['size'] / 1024:,.0f}", *times, f"{row['ratio']:.2f}")


if __name__ == "__main__":
    main()
