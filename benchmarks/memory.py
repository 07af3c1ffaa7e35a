"""Measure how exact `measure.peak_memory` is, on 4 ranks with gloo.

Buffers of known size, from 1 MB upward, and every way to gather, against the bytes
that were asked for or that `measure.cost` predicts. The second witness is the
resident memory that the operating system reports. Errors in percent; the worst rank
of the worst run counts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import figures

from course_utils import launch

WORLD = 4
KNOWN = (10**6, 2**20, 4 * 2**20 + 4096, 16 * 2**20, 64 * 2**20)  # bytes
WITNESSED = (8 * 2**20, 32 * 2**20)
ON_RANKS = """
import torch
import torch.distributed as dist

from course_utils import concat
from course_utils.measure import peak_memory
from course_utils.measure.resident import resident_memory

world_size = dist.get_world_size()


def known(measure, size):
    with measure() as memory:
        kept, gone = torch.ones(size // 4), torch.ones(size // 4)
        del gone
    return memory.peak


def gathered(measure, size, way):
    shard = torch.ones(size // 4)
    dist.barrier()
    with measure() as memory:
        if way == "all_gather_cat":
            result = concat.all_gather_cat(shard)
        else:
            buffers = [torch.empty_like(shard) for _ in range(world_size)]
            dist.all_gather(buffers, shard)
            result = torch.cat(buffers)
    return memory.peak
"""
WAYS = {"all_gather + cat": 2 * WORLD, "all_gather_cat": WORLD}  # peak in shards


def main() -> None:
    """Measure, print the table, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="of each size (20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    options = parser.parse_args()
    exact = errors("peak_memory", KNOWN, options.runs)
    witness = errors("resident_memory", WITNESSED, options.runs)
    rows = [
        (f"{measure} {what}", f"{size / 2**20:.2f}", f"{worst:.3f}")
        for measure, found in (("peak_memory", exact), ("resident_memory", witness))
        for (what, size), worst in found.items()
    ]
    print(figures.table(("", "MiB", "worst error, %"), rows))
    promised = {
        "peak_error_max_percent": max(exact.values()),
        "witness_error_max_percent": max(witness.values()),
    }
    figures.show(promised)
    if options.json:
        figures.store(options.json, promised)


def errors(measure: str, sizes: tuple[int, ...], runs: int) -> dict:
    """Return the worst error of every case, in percent.

    Each case runs once before it counts: the first run touches pages of code, too.
    """
    found = {}
    with launch(WORLD, guard=False) as ranks:
        ranks.view.execute(ON_RANKS, block=True)
        for size in sizes:
            cases = {"buffers": (f"known({measure}, {size})", 2 * size)}
            for way, shards in WAYS.items():
                call = f"gathered({measure}, {size}, {way!r})"
                cases[way] = call, shards * size
            for what, (call, expected) in cases.items():
                ranks.run(eval, call)
                peaks = [p for _ in range(runs) for p in ranks.run(eval, call)]
                worst = max(abs(peak / expected - 1) for peak in peaks)
                found[what, size] = 100 * worst
    return found


if __name__ == "__main__":
    main()
