"""Measure how far off the fitted model of a collective is, on 4 ranks with gloo.

As lesson 10 does it: latency and bandwidth are fitted to the floors of an all_gather
at every second size and predict the sizes between. Several worlds, each one launch;
`model_error_percent` is the median of the worlds' largest errors at a size that was
not fitted, and `model_error_max_percent` the worst of them.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import median

import figures
from collectives import ALLOCATOR

from course_utils import launch
from course_utils.measure.link import Fit, fit
from course_utils.measure.prediction import cost

WORLD = 4
SIZES = tuple(2**k for k in range(10, 23, 2))  # bytes of a shard
ON_RANKS = """
import torch
import torch.distributed as dist

from course_utils.measure import in_turns


def gather_of(size):
    shard = torch.ones(size // 4)
    buffers = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    return lambda: dist.all_gather(buffers, shard)


def timings(sizes, repetitions):
    timed = in_turns({size: gather_of(size) for size in sizes}, repetitions)
    return {size: (timing.floor, timing.median) for size, timing in timed.items()}
"""


def main() -> None:
    """Measure and fit in several worlds, print a line for each, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=7, help="to launch (7)")
    parser.add_argument("--repetitions", type=int, default=80, help="of a size (80)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    options = parser.parse_args()
    for name, value in ALLOCATOR.items():
        os.environ.setdefault(name, value)
    rows, worst = [], []
    for world in range(options.worlds):
        timings = measured(options.repetitions)
        found, off = modelled({size: floor for size, (floor, _) in timings.items()})
        worst.append(100 * max(map(abs, off)))
        rows.append(
            (
                f"world {world + 1}",
                f"{1e6 * found.link.latency:.0f}",
                f"{found.link.bandwidth / 1e9:.2f}",
                *(f"{100 * error:+.0f}" for error in off),
                f"{max(middle / floor for floor, middle in timings.values()):.1f}",
            )
        )
    between = [f"{size / 1024:,.0f} KiB, %" for size in SIZES[1::2]]
    heads = ("", "latency, µs", "GB/s", *between, "median/floor")
    print(figures.table(heads, rows))
    promised = {
        "model_error_percent": median(worst),
        "model_error_max_percent": max(worst),
    }
    print()
    figures.show(promised)
    if options.json:
        figures.store(options.json, promised)


def measured(repetitions: int) -> dict[int, tuple[float, float]]:
    """Return the floor and the median of each size, in a world of its own."""
    with launch(WORLD, guard=False) as ranks:
        ranks.view.execute(ON_RANKS, block=True)
        return ranks.run(eval, f"timings({SIZES}, {repetitions})")[0]


def modelled(floors: dict[int, float]) -> tuple[Fit, list[float]]:
    """Return the fit to every second size, and the errors at the sizes between."""
    costs = {size: cost("all_gather", WORLD, size) for size in floors}
    points = [(costs[s].steps, costs[s].volume, floors[s]) for s in floors]
    found = fit(points[::2])
    return found, [t / found.link.seconds(n, v) - 1 for n, v, t in points[1::2]]


if __name__ == "__main__":
    main()
