"""Time collectives inside our ranks against the same loop under torchrun.

One run holds both worlds, the ranks of `launch(guard=False)` and those of torchrun,
and they take turns: for each operation and size the same function times one side,
then the other; a turn goes through all of them. Both sides have one thread a rank and
the same allocator settings. A cell is the median of the ratios of neighbouring turns:
a busy moment hits both sides, and no cell more than once or twice. Where mpi4py and
an MPI are installed, `MPI.Allgather`, `Gather` and `Bcast` on the same buffers are
shown beside them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from math import exp, log
from pathlib import Path

import figures

from course_utils.engines.machine import find_mpiexec

WORLDS = (2, 4)
SIZES = (2**10, 2**14, 2**18, 2**20, 2**22, 2**24, 2**26)  # bytes of the whole
OPERATIONS = ("all_gather", "gather", "broadcast")
LARGE = 2**20
FOLDER = "BENCH_FOLDER"  # variable that names the folder of the pipes
LIMIT = 300  # seconds for one answer
ALLOCATOR = {  # glibc keeps the memory of gloo's buffers: no page faults
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_ARENA_MAX": "1",
}


def main() -> None:
    """Start both worlds in turn, print the table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=7, help="of each side (7)")
    parser.add_argument("--calls", type=int, default=20, help="in a turn (20)")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    parser.add_argument("--worker", choices=("torch", "mpi"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        (serve if options.worker == "torch" else serve_mpi)()
        return
    for name, value in ALLOCATOR.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = [row for world in WORLDS for row in compare(world, options)]
    report(rows)
    found = promised(rows)
    print()
    figures.show(found)
    if options.json:
        figures.store(options.json, found)


def compare(world: int, options: argparse.Namespace) -> list[dict]:
    """Time all cells in a world of that size, the sides taking turns."""
    from course_utils import launch

    cells = [(operation, size) for operation in OPERATIONS for size in options.sizes]
    rows = []
    with ExitStack() as stack:
        ranks = stack.enter_context(launch(world, guard=False))
        sides = {"ours": partial(here, ranks)}
        for worker in ("torch", "mpi") if has_mpi() else ("torch",):
            sides[worker] = stack.enter_context(Served(worker, world)).ask
        taken = {cell: {name: [] for name in sides} for cell in cells}
        for turn in range(options.turns):
            for operation, size in cells:
                calls = max(3, options.calls // (8 if size >= 2**24 else 1))
                for name in list(sides)[:: 1 if turn % 2 else -1]:
                    seconds = sides[name]((operation, size, calls))
                    taken[operation, size][name].append(seconds)
    for (operation, size), seconds in taken.items():
        pairs = zip(seconds["ours"], seconds["torch"], strict=True)
        row = {name: statistics.median(of) for name, of in seconds.items()}
        row["ratio"] = statistics.median(ours / theirs for ours, theirs in pairs)
        rows.append(row | {"world": world, "operation": operation, "size": size})
    return rows


def here(ranks, job: tuple) -> float:
    """Time a cell inside our ranks."""
    source = Path(__file__).read_text()
    return ranks.run(in_rank, source, job)[0]


def in_rank(source: str, job: tuple) -> float:
    """Run `timed` of this file on a rank, which cannot import it."""
    names = {"__name__": "benchmark", "__file__": ""}
    exec(compile(source.replace("import figures\n", ""), "benchmark", "exec"), names)
    return names["timed"](*job)


def timed(operation: str, size: int, calls: int) -> float:
    """Return the median seconds of one call; the slowest rank counts."""
    import torch
    from torch import distributed as dist

    from course_utils.measure.timing import seconds

    rank, world = dist.get_rank(), dist.get_world_size()
    shard = torch.full((size // 4 // world,), float(rank))
    full = torch.zeros(size // 4)
    parts = list(full.chunk(world))
    call = {
        "all_gather": lambda: dist.all_gather(parts, shard),
        "gather": lambda: dist.gather(shard, None if rank else parts),
        "broadcast": lambda: dist.broadcast(full, 0),
    }[operation]
    return seconds(call, calls).median


class Served:
    """A world that another launcher started, and that times what it is asked for."""

    def __init__(self, worker: str, world: int) -> None:
        torchrun = [sys.executable, "-m", "torch.distributed.run"]
        launcher = {
            "torch": [*torchrun, f"--nproc-per-node={world}"],
            "mpi": [find_mpiexec() or "", "-n", str(world), sys.executable],
        }[worker]
        self.folder = tempfile.TemporaryDirectory(prefix="bench-")
        paths = [os.path.join(self.folder.name, name) for name in ("asked", "answers")]
        for path in paths:
            os.mkfifo(path)
        # Open for reading and writing, a pipe waits for nobody.
        self.asked, self.answers = (os.open(path, os.O_RDWR) for path in paths)
        env = {**os.environ, FOLDER: self.folder.name}
        env["GLOO_SOCKET_IFNAME"] = env.get("GLOO_SOCKET_IFNAME", "lo")
        command = [*launcher, __file__, "--worker", worker]
        self.process = subprocess.Popen(command, env=env)

    def ask(self, job: tuple) -> float:
        """Have the world time a cell."""
        os.write(self.asked, (json.dumps(job) + "\n").encode())
        if not select.select([self.answers], [], [], LIMIT)[0]:
            raise TimeoutError(f"no answer to {job} within {LIMIT} s")
        return float(os.read(self.answers, 100))

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self.asked, b"null\n")
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait(30)
        os.close(self.asked)
        os.close(self.answers)
        self.folder.cleanup()


class Asked:
    """The other end, on rank 0: cells to time, and a place for the answers."""

    def __init__(self) -> None:
        folder = Path(os.environ[FOLDER])
        self.jobs, self.answers = (folder / "asked").open(), folder / "answers"

    def next(self) -> list | None:
        """Return the next cell; None at the end."""
        return json.loads(self.jobs.readline() or "null")

    def answer(self, seconds: float) -> None:
        """Tell how long it took."""
        with self.answers.open("w") as file:
            file.write(f"{seconds}\n")


def serve() -> None:
    """Time what rank 0 is asked for, on every rank under torchrun."""
    from torch import distributed as dist

    dist.init_process_group("gloo")
    asked = Asked() if dist.get_rank() == 0 else None
    while True:
        jobs = [asked.next() if asked else None]
        dist.broadcast_object_list(jobs)
        if jobs[0] is None:
            break
        taken = timed(*jobs[0])
        if asked:
            asked.answer(taken)
    dist.destroy_process_group()


def has_mpi() -> bool:
    """Tell whether mpi4py and an MPI are installed."""
    there = importlib.util.find_spec("mpi4py") is not None
    return there and find_mpiexec() is not None


def serve_mpi() -> None:
    """Time the same operations of MPI on buffers of the same size."""
    import time

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    asked = None if comm.rank else Asked()
    while True:
        job = asked.next() if asked else None
        # A rank that waits in MPI takes a whole core, also from whose turn it is.
        together = comm.Ibarrier()
        while not together.Test():
            time.sleep(0.01)
        if (job := comm.bcast(job)) is None:
            break
        operation, size, calls = job
        shard = np.full(size // 4 // comm.size, comm.rank, dtype=np.float32)
        full = np.zeros(size // 4, dtype=np.float32)
        call = {
            "all_gather": lambda s=shard, f=full: comm.Allgather(s, f),
            "gather": lambda s=shard, f=full: comm.Gather(
                s, f if not comm.rank else None
            ),
            "broadcast": lambda f=full: comm.Bcast(f),
        }[operation]
        spent = []
        for _ in range(calls + 3):
            comm.Barrier()
            start = time.perf_counter()
            call()
            spent.append(comm.allreduce(time.perf_counter() - start, op=MPI.MAX))
        if asked:
            asked.answer(statistics.median(spent[3:]))


def report(rows: list[dict]) -> None:
    """Print a line for each cell."""
    table = [
        (
            f"{row['operation']}, {row['world']} ranks",
            f"{row['size'] / 1024:,.0f}",
            f"{1e3 * row['ours']:.2f}",
            f"{1e3 * row['torch']:.2f}",
            f"{row['ratio']:.2f}",
            f"{1e3 * row['mpi']:.3f}" if "mpi" in row else "",
        )
        for row in rows
    ]
    heads = ("", "KiB in all", "ours, ms", "torchrun, ms", "ratio", "MPI, ms")
    print(figures.table(heads, table))


def promised(rows: list[dict]) -> dict[str, float]:
    """Return the figures that the project promises."""
    ratios = [row["ratio"] for row in rows]
    found = {"collectives_over_torchrun": exp(sum(map(log, ratios)) / len(ratios))}
    large = [row["ratio"] for row in rows if row["size"] >= LARGE]
    if large:
        found["worst_cell_over_torchrun"] = max(large)
    return found


if __name__ == "__main__":
    main()
