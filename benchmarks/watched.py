"""Measure what the watch on a script costs, and how soon it reports.

Two ranks under torchrun make a thousand small collectives a block, with the watch and
without, in turn; the ratio of the two is within one run. Then their main threads run
Python alone, and notice how long the watch keeps them from the interpreter. At last
ranks get stuck, and report and end are timed from the moment they do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from figures import show, spread, store, table

COUNT = 1000  # collectives in a block, with the watch or without
SPIN = 10.0  # seconds in which the main thread runs Python alone
PATIENCE = 5.0  # seconds, of the ranks that get stuck
STUCK = """\
import os, time
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    print("stuck at", time.time(), flush=True)
    dist.recv(__import__("torch").ones(1), src=1)
else:
    dist.barrier()
"""


def main() -> None:
    """Measure both, print a table, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="pairs of blocks (20)")
    parser.add_argument("--jobs", type=int, default=5, help="that get stuck (5)")
    parser.add_argument("--ranks", type=int, default=16, help="that get stuck (16)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        seen = cost(Path(folder), options.runs)
        times = [stuck(Path(folder), options.ranks) for _ in range(options.jobs)]
    late, after = zip(*times, strict=True)
    rows = [
        ["step with the watch over without", spread(seen["ratios"])],
        ["a look of the watch, CPU ms", spread(seen["looks"])],
        ["main thread kept from Python by a look, ms", spread(seen["held"])],
        [f"report after the patience, {options.ranks} ranks, s", spread(late)],
        [f"end after the report, {options.ranks} ranks, s", spread(after)],
    ]
    print(table(["", "median (smallest–largest)"], rows), end="\n\n")
    figures = {
        "watched_over_bare": median(seen["ratios"]),
        "look_max_ms": max(seen["looks"]),
        "held_ms": median(seen["held"]),
        "report_after_patience_s": median(late),
        "end_after_report_s": median(after),
    }
    show(figures)
    if options.json:
        store(options.json, figures)


def torchrun(ranks: int, *command: str) -> subprocess.Popen:
    """Start a command on some ranks of this machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.Popen(
        [*launcher, f"--nproc-per-node={ranks}", *command],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def cost(folder: Path, runs: int) -> dict[str, list[float]]:
    """Return the ratios of the steps, and the CPU milliseconds of the looks."""
    written = folder / "cost.json"
    started = torchrun(2, __file__, f"--runs={runs}", f"--inside={written}")
    said, _ = started.communicate(timeout=600)
    if started.returncode:
        raise RuntimeError(f"the ranks failed:\n{said}")
    return json.loads(written.read_text())


def stuck(folder: Path, ranks: int) -> tuple[float, float]:
    """Let ranks get stuck; return how late the report is, and the end after it.

    Seconds from the end of the patience to the first report, and from there until
    the job has ended.
    """
    script = folder / "stuck.py"
    script.write_text(STUCK)
    options = ["-m", "course_utils.watched", f"--patience={PATIENCE}"]
    started = torchrun(ranks, *options, str(script))
    since = 0.0
    for line in started.stdout:
        if "stuck at" in line:
            since = float(line.split()[-1])
        elif line.startswith("stuck:"):
            reported = time.time()
            started.communicate(timeout=60)
            return reported - since - PATIENCE, time.time() - reported
    raise RuntimeError("the ranks ended without a report")


def inside(options: argparse.Namespace) -> None:
    """Measure, as a rank, steps with the watch and without."""
    import torch
    from torch import distributed as dist

    from course_utils.watched import start
    from course_utils.watched.sentry import Sentry

    looks, on = [], [True]
    once = Sentry._once

    def timed(sentry: Sentry) -> None:
        if on[0]:
            before = time.thread_time()
            once(sentry)
            looks.append(1e3 * (time.thread_time() - before))

    Sentry._once = timed
    start(on_stuck="report")
    dist.init_process_group("gloo")
    small, ratios = torch.ones(8), []
    for number in range(2 * options.runs + 2):  # the first pair warms up
        on[0] = number % 2 == 0
        ratios.append(step_of(small))
    on[0] = True
    held = kept_waiting(SPIN)
    pairs = list(zip(ratios[2::2], ratios[3::2], strict=True))
    if dist.get_rank() == 0:
        ratios = [a / b for a, b in pairs]
        found = {"ratios": ratios, "looks": looks[4:], "held": held}
        options.inside.write_text(json.dumps(found))
    dist.destroy_process_group()


def kept_waiting(seconds: float) -> list[float]:
    """Run Python alone; return the milliseconds for which it waited, each time.

    Only where the thread gave up its processor by itself: nothing but the interpreter,
    which another thread holds, makes it do so.
    """
    found, before = [], time.perf_counter()
    gave_up = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    end = before + seconds
    while before < end:
        now, given = time.perf_counter(), resource.getrusage(resource.RUSAGE_THREAD)
        if given.ru_nvcsw > gave_up:
            found.append(1e3 * (now - before))
        before, gave_up = now, given.ru_nvcsw
    return found


def step_of(small) -> float:
    """Return the mean seconds of a small collective over a block."""
    from torch import distributed as dist

    begun = time.perf_counter()
    for _ in range(COUNT):
        dist.all_reduce(small)
    return (time.perf_counter() - begun) / COUNT


if __name__ == "__main__":
    main()
