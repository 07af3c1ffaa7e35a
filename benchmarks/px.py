"""Measure what reading by rank costs: an empty `%%px` cell against a bare execute.

Both run on the same 4 ranks, then on the same 16, in turn, from one IPython shell in
this process: the cell as a learner types it, and a blocking `DirectView.execute` of
the same code.
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

SIZES = {4: 100, 16: 40}  # rounds in each run, by number of ranks
WARM_UP = 10


def main() -> None:
    """Measure both sides in turn, print a table, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of many rounds each (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures")
    options = parser.parse_args()

    runs = {size: measure(size, options.runs) for size in SIZES}
    ratios = {n: [cell / bare for cell, bare in pairs] for n, pairs in runs.items()}
    rounds = " and ".join(map(str, SIZES.values()))
    print(f"median (smallest–largest) of {options.runs} runs of {rounds} rounds, in ms")
    rows = [
        ["empty %%px cell", *(milliseconds(pairs, 0) for pairs in runs.values())],
        ["DirectView.execute", *(milliseconds(pairs, 1) for pairs in runs.values())],
        ["ratio", *map(spread, ratios.values())],
    ]
    print(table(["", *(f"{size} ranks" for size in SIZES)], rows), end="\n\n")
    figures = {
        "px_over_execute": median(ratios[4]),
        "px16_over_execute": median(ratios[16]),
    }
    show(figures)
    if options.json:
        store(options.json, figures)


def measure(size: int, runs: int) -> list[tuple[float, float]]:
    """Return for each run the median seconds of a cell and of a bare execute."""
    shell = InteractiveShell.instance()
    with launch(size) as ranks:

        def cell() -> None:
            shell.run_cell("%%px\npass", store_history=False).raise_error()

        def execute() -> None:
            ranks.view.execute("pass", block=True)

        alternate(cell, execute, WARM_UP)
        return [alternate(cell, execute, SIZES[size]) for _ in range(runs)]


def milliseconds(pairs: list[tuple[float, float]], side: int) -> str:
    """Write the seconds of one side of all runs as milliseconds."""
    return spread([1000 * pair[side] for pair in pairs])


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
