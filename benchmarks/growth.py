"""Measure what grows with the world: 2 to 32 ranks on this machine.

For each size: `launch` of a world right after another one, an empty `%%px` cell,
`all_gather_cat` of 64 KiB a rank beside all_gather and cat, and what the guard adds to
an all_gather of 16 bytes. The seconds of a collective are those of the slowest rank,
medians over the rounds, the ways in turn; a world of each kind is launched `--runs`
times, and the table has the median of these with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from figures import show, spread, store, table
from IPython.core.interactiveshell import InteractiveShell

from course_utils import launch

SIZES = [2, 4, 8, 16, 32]
ROUNDS = 40
COLUMNS = {
    "launch": "launch, s",
    "cell": "%%px, ms",
    "bare": "all_gather + cat, ms",
    "ours": "all_gather_cat, ms",
    "tiny": "tiny, ms",
    "guarded": "guarded, ms",
}
PANELS = {
    "what the notebook waits for": {
        "launch": "launch, after another one",
        "cell": "an empty %%px cell",
    },
    "what the ranks do, the slowest of them": {
        "bare": "64 KiB: all_gather, cat",
        "ours": "64 KiB: all_gather_cat",
        "guarded": "16 bytes: all_gather, guarded",
        "tiny": "16 bytes: all_gather",
    },
}
STYLES = [
    {"color": "#222222", "marker": "o"},
    {"color": "#0072b2", "marker": "s"},
    {"color": "#d55e00", "marker": "^", "linestyle": "--"},
    {"color": "#999999", "marker": "v", "linestyle": "--"},
]
CALLS = """
import time
import torch
from torch import distributed as dist
from course_utils.concat import all_gather_cat

world_size = dist.get_world_size()
shard, tiny = torch.ones(2**14), torch.ones(4)
parts = [torch.empty_like(shard) for _ in range(world_size)]
tinies = [torch.empty_like(tiny) for _ in range(world_size)]


def bare():
    dist.all_gather(parts, shard)
    torch.cat(parts)


ways = {
    "bare": bare,
    "ours": lambda: all_gather_cat(shard),
    "tiny": lambda: dist.all_gather(tinies, tiny),
}


def timed(names, rounds):
    seconds = {name: [] for name in names}
    for turn in range(rounds + 3):
        for name in names:
            dist.distributed_c10d.barrier()
            start = time.perf_counter()
            ways[name]()
            if turn >= 3:
                seconds[name].append(time.perf_counter() - start)
    return seconds
"""


def main() -> None:
    """Measure every size, print a table, draw it, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, as .png")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    options = parser.parse_args()
    launch(1).stop()  # modules are imported, the fork parent is warm
    found = {size: measured(size, options.runs) for size in options.sizes}
    rows = [
        [size, *[spread(values[name]) for name in COLUMNS]]
        for size, values in found.items()
    ]
    print(table(["ranks", *COLUMNS.values()], rows), end="\n\n")
    figures = {
        f"{name}_{size}": ratio
        for size, values in found.items()
        for name, ratio in ratios(values).items()
    }
    show(figures)
    if options.plot:
        draw(found, options.plot)
    if options.json:
        store(options.json, figures)


def measured(size: int, runs: int) -> dict[str, list[float]]:
    """Return what every run of a world of this size took, by column."""
    values: dict[str, list[float]] = {name: [] for name in COLUMNS}
    shell = InteractiveShell.instance()
    for _ in range(runs):
        start = time.perf_counter()
        with launch(size, guard=False) as ranks:
            values["launch"].append(time.perf_counter() - start)
            values["cell"].append(1e3 * cell(shell))
            for name, seconds in slowest(ranks, ["bare", "ours", "tiny"]).items():
                values[name].append(1e3 * seconds)
        with launch(size, guard=True) as ranks:
            values["guarded"].append(1e3 * slowest(ranks, ["tiny"])["tiny"])
    return values


def cell(shell: InteractiveShell) -> float:
    """Return the seconds of an empty cell."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        shell.run_cell("%%px\npass", store_history=False).raise_error()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def slowest(ranks, names: list[str]) -> dict[str, float]:
    """Return the seconds of each way, of the slowest rank in each round."""
    ranks.view.execute(CALLS, block=True)
    told = ranks.run_all(eval, f"timed({names!r}, {ROUNDS})")  # shows nothing
    return {
        name: median(map(max, zip(*[one[name] for one in told], strict=True)))
        for name in names
    }


def ratios(values: dict[str, Sequence[float]]) -> dict[str, float]:
    """Return what is comparable between machines."""
    return {
        "all_gather_cat_over_bare": median(values["ours"]) / median(values["bare"]),
        "guarded_over_tiny": median(values["guarded"]) / median(values["tiny"]),
    }


def draw(found: dict[int, dict[str, list[float]]], path: Path) -> None:
    """Draw what the notebook waits for beside what the ranks do; axes logarithmic."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    from course_utils.text import show_seconds

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    sizes = list(found)
    for axes, (title, lines) in zip(panels, PANELS.items(), strict=True):
        for (name, label), style in zip(lines.items(), STYLES, strict=False):
            scale = 1e3 if name == "launch" else 1
            medians = [scale * median(found[size][name]) for size in sizes]
            axes.loglog(sizes, medians, label=label, **style)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("ranks")
        axes.set_xticks(sizes, sizes, minor=False)
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda ms, _: show_seconds(ms / 1e3))
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
