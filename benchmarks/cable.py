"""Time `all_gather_cat` on two hosts inside this machine, joined by a cable.

In each turn the bare collective with `torch.cat`, `all_gather_cat`, and the same
without shared memory, where every rank sends to every other one, join the same shards;
the slowest rank counts. Linux only, as hosts inside a machine are.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from figures import show, spread, store, table

from course_utils import launch

RANKS = (4, 8)
CABLE = "400mbit"
SIZES = (2**16, 2**20, 2**22)  # bytes of a shard
LARGE = 2**20
BARE, OURS, SOCKETS = "all_gather + cat", "all_gather_cat", "without shared memory"


def main() -> None:
    """Measure all ways in turn, print a table, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of many turns each (3)")
    parser.add_argument("--turns", type=int, default=9, help="of each run (9)")
    parser.add_argument("--ranks", type=int, nargs="*", default=RANKS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    options = parser.parse_args()

    print(f"median (smallest–largest) of {options.runs} runs of {options.turns} turns,")
    print(f"over the bare collective; a cable of {CABLE}")
    figures = {}
    for size in options.ranks:
        runs = [measured(size, options.turns) for _ in range(options.runs)]
        ratios = {key: [run[key] for run in runs] for key in runs[0]}
        rows = [
            [name, *(spread(ratios[name, shard]) for shard in SIZES)]
            for name in (OURS, SOCKETS)
        ]
        sizes = [f"{shard >> 10} KiB" for shard in SIZES]
        print(table([f"{size} ranks", *sizes], rows), end="\n\n")
        figures[f"cable{size}_1mib_over_bare"] = median(ratios[OURS, LARGE])
    show(figures)
    if options.json:
        store(options.json, figures)


def measured(size: int, turns: int) -> dict[tuple[str, int], float]:
    """Return by way and shard what a call takes, in units of the bare collective."""
    with launch(size, hosts=2, link=CABLE, guard=False) as ranks:
        return ranks.run(ratios, turns)[0]


def ratios(turns: int) -> dict[tuple[str, int], float]:
    """Time all ways on this rank; return the ratios."""
    import os

    import torch
    from torch import distributed as dist

    from course_utils import measure
    from course_utils.concat import all_gather_cat
    from course_utils.same_host import SWITCH

    sockets, found = dist.new_group(), {}
    os.environ[SWITCH] = "0"  # read once for each group
    all_gather_cat(torch.ones(1), group=sockets)
    os.environ[SWITCH] = "1"
    for size in SIZES:
        shard = torch.ones(size // 4)

        def bare(shard=shard):
            parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, shard)
            return torch.cat(parts)

        ways = {
            BARE: bare,
            OURS: lambda shard=shard: all_gather_cat(shard),
            SOCKETS: lambda shard=shard: all_gather_cat(shard, group=sockets),
        }
        times = measure.in_turns(ways, turns)
        for name in (OURS, SOCKETS):
            found[name, size] = times[name].median / times[BARE].median
    return found


if __name__ == "__main__":
    main()
