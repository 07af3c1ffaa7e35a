"""python -m course_utils read FILE …: what goes wrong between ranks, line by line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from course_utils.read.reading import read_notebook, read_source


def read_command(commands) -> None:
    """Add the command to a parser's sub-commands."""
    parser = commands.add_parser(
        "read",
        help="find in scripts and notebooks what goes wrong between ranks",
        description="Read scripts and notebooks, without running them, for collectives "
        "that some ranks leave out, and other mistakes between ranks. The exit status "
        'is 1 if there are any. "# read: ignore" at the end of a line silences it.',
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what is found; return 1 if anything is."""
    found = [line for path in options.files for line in report(path)]
    for line in found:
        print(line)
    return 1 if found else 0


def report(path: Path) -> Iterator[str]:
    """Yield the findings in a file, each with its place in front."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        for cell, finding in read_notebook(text):
            yield f"{path}: cell {cell}, line {finding}"
        return
    try:
        for finding in read_source(text):
            yield f"{path}:{finding}"
    except SyntaxError as error:
        raise ValueError(f"{path}, line {error.lineno}: {error.msg}") from None
