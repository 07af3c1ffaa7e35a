"""Measure how fast a world is ready, how fast it ends and what memory it takes.

Four sides, in turn, for each number of ranks: `course_utils.launch`; a launch right
after that, which ends the first world; ipyparallel's default launcher, with a process
group initialised over ``tcp://127.0.0.1``; and torchrun. A side is ready when every
rank has finished its first all_reduce.

All but torchrun run in a fresh Python each, whose clock starts when Python is up and
before anything but the standard library is imported: their own imports count, the
start of the interpreter does not; that of the second launch starts when it is called.
torchrun's clock starts before its process does and
ends with its last rank, because that is what a user of torchrun waits for.

Private memory (USS) is the mean over the ranks, each with its nanny if it has one;
1 MB is 10**6 bytes. Controller, fork parent and torchrun itself are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

SIZES = (2, 4, 8, 16)
LIMIT = 300  # seconds for one start
MB = 10**6


def main() -> None:
    """Measure all sides in turn, print a table, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of each side (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    parser.add_argument("--side", choices=(*SIDES, "rank"), help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        SIDES.get(options.side, rank_under_torchrun)(options.size)
        return
    import figures

    runs = measure(options.runs)
    print(text(runs))
    found = reduced(runs)
    figures.show(found)
    if options.json:
        figures.store(options.json, found)


def measure(count: int) -> dict[tuple[str, int], list[dict[str, float]]]:
    """Run every side `count` times, in turn, so that a busy moment hits them all."""
    runs = defaultdict(list)
    for run in range(count):
        for size in SIZES:
            for side in SIDES:
                print(f"run {run + 1}: {side} {size}", end="\r", file=sys.stderr)
                runs[side, size].append(one(side, size))
    print(" " * 30, end="\r", file=sys.stderr)
    return runs


def one(side: str, size: int) -> dict[str, float]:
    """Run one side once, in a fresh Python and an empty configuration."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        done = subprocess.run(
            [sys.executable, __file__, "--side", side, "--size", str(size)],
            env={**os.environ, "IPYTHONDIR": folder, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    if done.returncode:
        raise SystemExit(f"{side} with {size} ranks failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def reduced(runs: dict) -> dict[str, float]:
    """Return the figures that the project watches."""

    def mid(side: str, size: int, what: str) -> float:
        return median(run[what] for run in runs[side, size])

    ready4, ready16 = mid("launch", 4, "ready"), mid("launch", 16, "ready")
    return {
        "launch4_over_torchrun": ready4 / mid("torchrun", 4, "ready"),
        "launch4_over_default": ready4 / mid("default", 4, "ready"),
        "launch16_over_torchrun16": ready16 / mid("torchrun", 16, "ready"),
        "relaunch4_seconds": mid("relaunch", 4, "ready"),
        "relaunch16_seconds": mid("relaunch", 16, "ready"),
        "stop_seconds": max(mid("launch", size, "stop") for size in SIZES),
        "uss_mb_per_rank": max(mid("launch", size, "uss") for size in SIZES),
    }


def text(runs: dict) -> str:
    """Return the table for people."""
    import figures

    rows = []
    for (side, size), results in sorted(runs.items(), key=lambda item: item[0][1]):
        columns = [[run[what] for run in results] for what in ("ready", "stop", "uss")]
        digits = (2, 3, 0)
        cells = [figures.spread(*pair) for pair in zip(columns, digits, strict=True)]
        rows.append([f"{side} {size}", *cells])
    count = len(next(iter(runs.values())))
    title = f"median (smallest–largest) of {count} runs on {os.cpu_count()} CPUs"
    headings = ["", "ready, s", "stop, s", "private MB a rank"]
    return f"{title}\n{figures.table(headings, rows)}\n"


def first_collective() -> None:
    """Join all ranks in one all_reduce."""
    import torch
    from torch import distributed

    distributed.all_reduce(torch.ones(1))


def with_launch(size: int) -> None:
    """Measure `course_utils.launch`."""
    measure_launch(size, time.perf_counter())


def with_launch_again(size: int) -> None:
    """Measure `course_utils.launch` where a world runs already."""
    from course_utils import launch

    launch(size).run(first_collective)
    measure_launch(size, time.perf_counter())


def measure_launch(size: int, start: float) -> None:
    """Launch a world; report its figures. `start`: on the clock."""
    from course_utils import launch

    ranks = launch(size)
    ranks.run(first_collective)
    ready = time.perf_counter()
    uss = private(ranks.run(os.getpid))
    before = time.perf_counter()
    ranks.stop()
    report(ready - start, time.perf_counter() - before, uss)


def with_default(size: int) -> None:
    """Measure ipyparallel's default launcher."""
    start = time.perf_counter()
    import ipyparallel

    cluster = ipyparallel.Cluster(n=size, log_level=40)
    client = cluster.start_and_connect_sync()
    port, joined = free_port(), []
    for rank, engine in enumerate(client.ids):
        joined.append(client[engine].apply_async(join, rank, size, port))
    for result in joined:
        result.get(LIMIT)
    client[:].apply_sync(first_collective)
    ready = time.perf_counter()
    uss = private(client[:].apply_sync(os.getpid))
    before = time.perf_counter()
    client.close()
    cluster.stop_cluster_sync()
    report(ready - start, time.perf_counter() - before, uss)


def join(rank: int, size: int, port: int) -> None:
    """Initialise the process group of an ordinary engine."""
    from torch import distributed

    where = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", where, rank=rank, world_size=size)


def with_torchrun(size: int) -> None:
    """Measure torchrun, from its start to the last rank's first all_reduce."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = [sys.executable, "-m", "torch.distributed.run"]
        command += [f"--nproc-per-node={size}", f"--master-port={free_port()}"]
        command += [__file__, "--side", "rank"]
        start = time.time()
        subprocess.run(
            command,
            env={**os.environ, "BENCH_FOLDER": folder},
            check=True,
            timeout=LIMIT,
        )
        end = time.time()
        ranks = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    ready = max(rank["ready"] for rank in ranks)
    report(ready - start, end - ready, sum(rank["uss"] for rank in ranks) / size)


def rank_under_torchrun(_: object) -> None:
    """Be one rank of torchrun."""
    from torch import distributed

    distributed.init_process_group("gloo")
    first_collective()
    ready, uss = time.time(), private([os.getpid()])
    path = Path(os.environ["BENCH_FOLDER"], os.environ["RANK"])
    path.write_text(json.dumps({"ready": ready, "uss": uss}))
    distributed.barrier()
    distributed.destroy_process_group()


def private(pids: list[int]) -> float:
    """Return the mean private memory of ranks, in MB, with what they started."""
    import psutil

    ranks = [psutil.Process(pid) for pid in pids]
    processes = [p for rank in ranks for p in (rank, *rank.children(recursive=True))]
    return sum(p.memory_full_info().uss for p in processes) / len(pids) / MB


def free_port() -> int:
    """Return a port of the loopback interface that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def report(ready: float, stop: float, uss: float) -> None:
    """Print one measurement for the process that started this one."""
    print(json.dumps({"ready": ready, "stop": stop, "uss": uss}))


SIDES = {
    "launch": with_launch,
    "relaunch": with_launch_again,
    "default": with_default,
    "torchrun": with_torchrun,
}

if __name__ == "__main__":
    main()
