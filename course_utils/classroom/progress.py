"""`python -m course_utils progress`: which exercises submitted notebooks solve."""

from __future__ import annotations

import argparse
import csv
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from course_utils.classroom.rows import Limits, Row
from course_utils.text import aligned, seconds

LIMIT, CELL_LIMIT = 600, 120  # seconds
FORMULA = ("=", "+", "-", "@")  # a spreadsheet computes text that begins so
CHECKPOINTS = ".ipynb_checkpoints"
STOPPED = 130  # exit status, as of a shell, after Ctrl-C


def progress_command(commands: argparse._SubParsersAction) -> None:
    """Add the command `progress`."""
    parser = commands.add_parser(
        "progress",
        help="run the checks of submitted notebooks, and print a table",
        description="Run submitted notebooks, each in a process of its own with a "
        "fresh world, and print what their checks say.",
        epilog="It runs the code in the notebooks with your rights: for those of "
        "people you do not trust, use a container.",
    )
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="store, with reasons")
    parser.add_argument("--why", action="store_true", help="print the reasons, too")
    for name, default, what in (
        ("--limit", LIMIT, "a notebook"),
        ("--cell-limit", CELL_LIMIT, "one cell of it"),
    ):
        parser.add_argument(
            name,
            type=seconds,
            default=default,
            metavar="SECONDS",
            help=f"for {what} (default: {default})",
        )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="notebooks at a time (default: cores / 2)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the notebooks, print the table, store the rows; return the exit status."""
    jobs = max(1, (os.cpu_count() or 2) // 2) if options.jobs is None else options.jobs
    if jobs < 1:
        raise ValueError(f"--jobs: expected at least 1, got {jobs}")
    if options.csv:
        options.csv.touch()  # to fail now, rather than after an hour
    paths = list(found(options.notebooks))
    rows, complete = collect_all(paths, Limits(options.limit, options.cell_limit), jobs)
    print(table(rows))
    if options.why:
        print("", *reasons(rows), sep="\n")
    if options.csv:
        store(options.csv, rows)
    return 0 if complete else STOPPED


def found(paths: Iterable[Path]) -> Iterable[Path]:
    """Yield the notebooks that were named, and those in folders that were named."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inside = [
            p for p in sorted(path.rglob("*.ipynb")) if CHECKPOINTS not in p.parts
        ]
        if not inside:
            raise ValueError(f"expected notebooks, but {path} is a folder without any")
        yield from inside


def collect_all(
    paths: Sequence[Path], limits: Limits, jobs: int
) -> tuple[list[Row], bool]:
    """Run notebooks, some at a time; return their rows, in the order of the paths.

    Also returns whether all have run: an interrupt ends those that do.
    """
    from course_utils.classroom.collecting import collect  # psutil: not for `doctor`

    stop, results = threading.Event(), {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(collect, path, limits, stop): path for path in paths}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                results[futures[future]] = future.result()
                told = f"{done} of {len(paths)}: {futures[future]}"
                print(told, file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            stop.set()
            pool.shutdown(cancel_futures=True)
    rows = [row for path in paths for row in results.get(path, ())]
    return rows, not stop.is_set()


def table(rows: Sequence[Row]) -> str:
    """Write notebooks below exercises, and how many solved each."""
    exercises = sorted({row.exercise for row in rows if row.exercise}, key=in_order)
    columns = exercises or [""]
    lines = [["notebook", *columns]]
    states = {(row.notebook, row.exercise): row.state for row in rows}
    for name in dict.fromkeys(row.notebook for row in rows):
        alone = states.get((name, ""))  # said of the notebook as a whole
        cells = [states.get((name, exercise), "") for exercise in columns]
        lines.append([name, alone or cells[0], *cells[1:]])
    if exercises:
        solved = [solvers(rows, exercise) for exercise in exercises]
        lines.append([f"correct, of {len(lines) - 1}", *solved])
    return aligned(lines)


def solvers(rows: Sequence[Row], exercise: str) -> str:
    """Count the notebooks that solve an exercise."""
    return str(sum(r.exercise == exercise and r.state == "correct" for r in rows))


def in_order(exercise: str) -> tuple:
    """Sort 10.1 behind 9.2."""
    return tuple((not p.isdecimal(), p.zfill(6)) for p in exercise.split("."))


def reasons(rows: Sequence[Row]) -> list[str]:
    """Write why exercises are not solved, one a line."""
    return [
        " ".join(filter(None, (row.notebook, row.exercise, f"{row.state}:", row.why)))
        for row in rows
        if row.why
    ]


def store(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(map(harmless, row) for row in rows)


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
