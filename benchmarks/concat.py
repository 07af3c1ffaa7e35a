"""Time `course_utils.concat` against what people use today, on gloo.

Even shards: `all_gather_cat` and `gather_cat` against the bare collective with
`torch.cat`. Uneven shards: against torchmetrics' and accelerate's gather, object
collectives, pad-and-trim by hand and, where mpi4py and an MPI are installed,
`Allgatherv`. In each round all ways take a turn on the same data, behind a
barrier; the slowest rank counts; medians over the rounds. gloo's ranks leave a barrier
one after the other, and MPI's at once: ``--calls 10`` makes ten calls behind each, and
takes their mean. Bytes on the wire are what the kernel counted on the TCP connections
of all ranks; peak memory is the profiler's, of the rank that needs most, gloo's hidden
buffers included.

Peers that are not installed are left out. They come with
``pip install -r benchmarks/requirements.txt``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import figures

from course_utils.engines.machine import find_mpiexec

SIZES = [2**12, 2**16, 2**20, 2**22, 2**24, 2**26]  # bytes of the whole
EVEN_1MB, EVEN_1KB = 2**22, 2**12  # bytes of the whole: shards of 1 MiB and 1 KiB
SKEWS = {"1:1": 1, "1:2": 2, "1:10": 10}  # the last shard, in units of each other one
PEERS = ("torchmetrics", "accelerate", "objects")
LIMIT = 900  # seconds for one run of all


def main() -> None:
    """Run the ranks, print the tables, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--ranks", type=int, default=4, help="the figures are of 4")
    parser.add_argument("--calls", type=int, default=1, help="behind a barrier (1)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--mpi", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        (mpi_worker if options.mpi else torch_worker)(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = run_ranks(options, Path(folder) / "torch.json", mpi=False)
        rows += run_ranks(options, Path(folder) / "mpi.json", mpi=True)
    report(rows)
    if options.ranks != 4 or options.calls != 1:
        return
    found = promised(rows)
    print()
    figures.show(found)
    if options.json:
        figures.store(options.json, found)


def run_ranks(options: argparse.Namespace, result: Path, mpi: bool) -> list[dict]:
    """Start the processes that measure; return the rows of rank 0."""
    script = [__file__, "--worker", str(result), "--rounds", str(options.rounds)]
    script += ["--sizes", *map(str, options.sizes), "--ranks", str(options.ranks)]
    script += ["--calls", str(options.calls)]
    if mpi:
        mpiexec = find_mpiexec()
        if mpiexec is None or importlib.util.find_spec("mpi4py") is None:
            print("mpi4py: not installed, left out")
            return []
        command = [mpiexec, "-n", str(options.ranks), sys.executable, *script, "--mpi"]
    else:
        torchrun = [sys.executable, "-m", "torch.distributed.run"]
        command = [*torchrun, f"--nproc-per-node={options.ranks}", *script]
    env = {"OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "6", **os.environ}
    env["GLOO_SOCKET_IFNAME"] = env.get("GLOO_SOCKET_IFNAME", "lo")
    done = subprocess.run(command, timeout=LIMIT, env=env, capture_output=mpi)
    if done.returncode and mpi:
        print("mpi4py: does not start here, left out")
        return []
    done.check_returncode()
    return json.loads(result.read_text())


def lengths(size: int, skew: str, ranks: int) -> list[int]:
    """Return the number of float32 elements of every rank's shard."""
    parts = [1] * (ranks - 1) + [SKEWS[skew]]
    return [max(1, size // 4 * part // sum(parts)) for part in parts]


def torch_worker(options: argparse.Namespace) -> None:
    """Measure every way, size and skew on this rank; rank 0 writes the rows."""
    import torch
    from torch import distributed as dist

    dist.init_process_group("gloo")
    rank, rows = dist.get_rank(), []
    for size in options.sizes:
        for skew in SKEWS:
            counts = lengths(size, skew, options.ranks)
            shard = torch.arange(counts[rank], dtype=torch.float32) + 1000 * rank
            expected = torch.cat(
                [
                    torch.arange(n, dtype=torch.float32) + 1000 * r
                    for r, n in enumerate(counts)
                ]
            )
            ways = even_ways() if skew == "1:1" else {}
            ways |= uneven_ways()
            for name, way in ways.items():
                full = way(shard)
                if full is not None:
                    assert torch.equal(full, expected), (name, size, skew)
            seconds = {name: [] for name in ways}
            rounds = max(3, options.rounds // (4 if size > 2**24 else 1))
            for _ in range(rounds):
                for name, way in ways.items():
                    seconds[name].append(timed(way, shard, options.calls))
            for name, way in ways.items():
                rows.append(
                    {
                        "size": size,
                        "skew": skew,
                        "way": name,
                        "seconds": statistics.median(seconds[name]),
                        "spread": max(seconds[name]) - min(seconds[name]),
                        "wire": on_the_wire(way, shard),
                        "peak": peak(way, shard),
                    }
                )
    if rank == 0:
        options.worker.write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()


def even_ways() -> dict[str, Callable]:
    """Return the ways to join shards that must be equal."""
    import torch
    from torch import distributed as dist

    from course_utils import concat

    def bare(shard):
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, shard)
        return torch.cat(parts)

    def bare_gather(shard):
        ranks = dist.get_world_size() if dist.get_rank() == 0 else 0
        parts = [torch.empty_like(shard) for _ in range(ranks)]
        dist.gather(shard, parts or None)
        return torch.cat(parts) if parts else None

    def single(shard):
        whole = shard.new_empty(len(shard) * dist.get_world_size())
        dist.all_gather_single(whole, shard)
        return whole

    return {
        "all_gather_single": single,
        "all_gather + cat": bare,
        "gather + cat": bare_gather,
        "gather_cat": concat.gather_cat,
    }


def uneven_ways() -> dict[str, Callable]:
    """Return the ways to join shards of any length that are installed."""
    import torch
    from torch import distributed as dist

    from course_utils import concat

    def told_sizes(shard):
        sizes = torch.empty(dist.get_world_size(), dtype=torch.int64)
        dist.all_gather_single(sizes, torch.tensor([len(shard)]))
        return sizes

    def broadcasts(shard):
        sizes, rank = told_sizes(shard).tolist(), dist.get_rank()
        whole = shard.new_empty(sum(sizes))
        parts = whole.split(sizes)
        parts[rank].copy_(shard)
        works = [dist.broadcast(p, r, async_op=True) for r, p in enumerate(parts)]
        for work in works:
            work.wait()
        return whole

    def objects(shard):
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, shard)
        return torch.cat(parts)

    def pad_and_trim(shard):
        sizes = told_sizes(shard)
        padded = torch.zeros(int(sizes.max()), dtype=shard.dtype)
        padded[: len(shard)] = shard
        parts = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, padded)
        sized = zip(parts, sizes.tolist(), strict=True)
        return torch.cat([part[:size] for part, size in sized])

    ways = {
        "all_gather_cat": concat.all_gather_cat,
        "broadcasts": broadcasts,
        "objects": objects,
        "pad and trim": pad_and_trim,
    }
    if importlib.util.find_spec("torchmetrics"):
        from torchmetrics.utilities.distributed import gather_all_tensors

        ways["torchmetrics"] = lambda shard: torch.cat(gather_all_tensors(shard))
    if importlib.util.find_spec("accelerate"):
        ways["accelerate"] = accelerated()
    return ways


def accelerated() -> Callable:
    """Return accelerate's pad_across_processes and gather, with the padding cut."""
    import torch
    from accelerate import PartialState
    from accelerate.utils import gather, pad_across_processes

    PartialState(cpu=True)

    def way(shard):
        sizes = gather(torch.tensor([len(shard)]))
        whole = gather(pad_across_processes(shard)).view(len(sizes), -1)
        sized = zip(whole, sizes.tolist(), strict=True)
        return torch.cat([part[:size] for part, size in sized])

    return way


def timed(way: Callable, shard, calls: int) -> float:
    """Return the seconds that the slowest rank needs for a call of so many."""
    import time

    import torch
    from torch import distributed as dist

    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        way(shard)
    spent = torch.tensor([(time.perf_counter() - start) / calls])
    dist.all_reduce(spent, op=dist.ReduceOp.MAX)
    return spent.item()


def on_the_wire(way: Callable, shard) -> int:
    """Return the bytes that all ranks send in one call."""
    import torch
    from torch import distributed as dist

    from course_utils.measure import sent_bytes

    dist.barrier()
    before = sent_bytes()
    way(shard)
    sent = torch.tensor([sent_bytes() - before])
    dist.all_reduce(sent)
    return int(sent.item())


def peak(way: Callable, shard) -> int:
    """Return the bytes that the rank with the highest peak needs in one call."""
    import torch
    from torch import distributed as dist
    from torch.autograd.profiler import profile

    with profile(use_cpu=True, profile_memory=True, acc_events=False) as profiled:
        kept = way(shard)
    events = [e for e in profiled.kineto_results.events() if e.name() == "[memory]"]
    now = top = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        top = max(top, now)
    del kept
    highest = torch.tensor([top])
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    return int(highest.item())


def mpi_worker(options: argparse.Namespace) -> None:
    """Measure MPI's Allgatherv on the same data; rank 0 writes the rows."""
    import time

    import numpy as np
    from mpi4py import MPI

    comm, rows = MPI.COMM_WORLD, []
    for size in options.sizes:
        for skew in SKEWS:
            counts = lengths(size, skew, options.ranks)
            shard = np.ones(counts[comm.rank], dtype=np.float32)
            seconds = []
            for _ in range(options.rounds):
                comm.Barrier()
                start = time.perf_counter()
                for _ in range(options.calls):
                    full = np.empty(sum(counts), dtype=np.float32)
                    comm.Allgatherv(shard, (full, counts))
                spent = (time.perf_counter() - start) / options.calls
                seconds.append(comm.allreduce(spent, op=MPI.MAX))
            row = {"size": size, "skew": skew, "way": "mpi4py Allgatherv"}
            row |= {"seconds": statistics.median(seconds), "wire": None, "peak": None}
            rows.append(row | {"spread": max(seconds) - min(seconds)})
    if comm.rank == 0:
        options.worker.write_text(json.dumps(rows))


def report(rows: list[dict]) -> None:
    """Print one table for each size and skew, the fastest way first."""
    for size in dict.fromkeys(row["size"] for row in rows):
        for skew in SKEWS:
            shown = [r for r in rows if r["size"] == size and r["skew"] == skew]
            print(f"\n{size // 1024:,} KiB in all, shards {skew}")
            table = [
                (
                    row["way"],
                    f"{1e3 * row['seconds']:.2f}",
                    f"{1e3 * row['spread']:.2f}",
                    "" if row["wire"] is None else f"{row['wire'] / 1e6:.3f}",
                    "" if row["peak"] is None else f"{row['peak'] / size:.2f}",
                )
                for row in sorted(shown, key=lambda r: r["seconds"])
            ]
            print(figures.table(("way", "ms", "spread", "MB sent", "peak"), table))
    print("\npeak: in units of the whole, of the rank that needs most")


def promised(rows: list[dict]) -> dict[str, float]:
    """Return the figures that the project promises."""

    def find(size: int, skew: str, way: str, what: str = "seconds") -> float:
        return next(
            r[what]
            for r in rows
            if (r["size"], r["skew"], r["way"]) == (size, skew, way)
        )

    def best_peer(what: str) -> float:
        there = {r["way"] for r in rows}
        found = [find(2**24, "1:10", peer, what) for peer in PEERS if peer in there]
        return min(found)

    def over_bare(size: int) -> float:
        ours = find(size, "1:1", "all_gather_cat")
        return ours / find(size, "1:1", "all_gather + cat")

    sizes = {row["size"] for row in rows}
    found = {}
    if EVEN_1MB in sizes:
        found["even_1mb_over_bare"] = over_bare(EVEN_1MB)
    if EVEN_1KB in sizes:
        found["even_1kb_over_bare"] = over_bare(EVEN_1KB)
    if 2**24 in sizes:
        ours = ("1:10", "all_gather_cat")
        seconds = find(2**24, *ours) / best_peer("seconds")
        memory = find(2**24, *ours, "peak") / best_peer("peak")
        found["uneven_16mb_over_best_peer"] = seconds
        found["uneven_16mb_peak_over_best_peer"] = memory
    return found


if __name__ == "__main__":
    main()
