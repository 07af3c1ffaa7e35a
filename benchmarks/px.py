"""Measure what reading by rank costs: an empty `%%px` cell against a bare execute.

Both run on the same four ranks, in turn, from one IPython shell in this process: the
cell as a learner types it, and a blocking `DirectView.execute` of the same code.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from figures import show, spread, store, table
from IPython.core.interactiveshell import InteractiveShell

from course_utils import launch

RANKS = 4
ROUNDS = 100  # in each run
WARM_UP = 10


def main() -> None:
    """Measure both sides in turn, print a table, store the figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of 100 rounds each (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figure")
    options = parser.parse_args()

    shell = InteractiveShell.instance()
    with launch(RANKS) as ranks:

        def cell() -> None:
            shell.run_cell("%%px\npass", store_history=False).raise_error()

        def execute() -> None:
            ranks.view.execute("pass", block=True)

        alternate(cell, execute, WARM_UP)
        runs = [alternate(cell, execute, ROUNDS) for _ in range(options.runs)]
    cells, executes = zip(*runs, strict=True)
    ratios = [c / e for c, e in runs]
    print(f"median (smallest–largest) of {len(runs)} runs of {ROUNDS} rounds, in ms")
    rows = [
        ["empty %%px cell", spread([1000 * c for c in cells])],
        ["DirectView.execute", spread([1000 * e for e in executes])],
        ["ratio", spread(ratios)],
    ]
    print(table(["", f"{RANKS} ranks"], rows), end="\n\n")
    figures = {"px_over_execute": median(ratios)}
    show(figures)
    if options.json:
        store(options.json, figures)


def alternate(
    one: Callable[[], None], other: Callable[[], None], rounds: int
) -> tuple[float, float]:
    """Call two functions in turn; return the median seconds of each."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, kept in zip((one, other), seconds, strict=True):
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
    return median(seconds[0]), median(seconds[1])


if __name__ == "__main__":
    main()
