"""What ranks say while a cell or function runs, and what is stored of it.

At the end the words of all ranks stand in rank order, ranks that said the same share
one block, and a second run gives the same. Until then a live area shows the last
lines of each rank, and what it is doing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from IPython import get_ipython
from IPython.display import clear_output, display

from course_utils.stuck import RankState, lines
from course_utils.text import RankError, indent, merge, tag

if TYPE_CHECKING:
    from ipyparallel import AsyncResult

LIVE_AFTER = 1.0  # seconds before the live area appears
LIVE_LINES = 6  # of each rank, or ranks that said the same, in the live area
LIVE_WIDTH = 100  # characters of such a line
OUTPUT_LIMIT = 5.0  # seconds to wait for output after the last reply


@dataclass(frozen=True)
class Output:
    """What one rank said in one cell."""

    stdout: str = ""
    stderr: str = ""
    value: str = ""  # text of the last expression
    rich: list[dict] = field(default_factory=list)  # figures and the like


@contextmanager
def shown(result: AsyncResult, targets: list[int], alone: bool) -> Iterator[Live]:
    """Show what ranks say in a ``with`` block that waits for a cell or function.

    It stands above whatever the block raises.

    alone: whether nothing else in the notebook's cell can have shown anything.
    """
    live = Live(result, targets, alone)
    try:
        yield live
    except RankError:
        live.clear()
        print_said(collect(result, targets))
        raise
    except BaseException:
        live.clear()
        raise
    live.clear()
    result.wait_for_output(OUTPUT_LIMIT)
    print_said(collect(result, targets))


class Live:
    """The last words of each rank, and what it does, while a cell runs.

    The area is gone when the cell ends, so that what is stored does not depend on
    how long it took. Nothing is shown where nobody watches.
    """

    def __init__(self, result: AsyncResult, targets: list[int], alone: bool) -> None:
        self._result, self._targets, self._alone = result, targets, alone
        self._started = time.monotonic()
        self._handle = None
        self._watched = get_ipython() is not None and not quiet()

    def __call__(self, states: dict[int, RankState]) -> None:
        """Bring the area up to date."""
        seconds = time.monotonic() - self._started
        if not self._watched or seconds < LIVE_AFTER:
            return
        said = collect(self._result, self._targets)
        text = [*last_words(said), f"{seconds:.0f} s", *lines(states)]
        data = {"text/plain": "\n".join(text)}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def clear(self) -> None:
        """Take the area away."""
        if self._handle is None:
            return
        if self._alone:
            clear_output()
        else:  # what the cell showed before stays
            self._handle.update({"text/plain": ""}, raw=True)
        self._handle = None


def quiet() -> bool:
    """Tell whether nobody watches: no live area in tests and under CI."""
    return bool(os.environ.get("CI") or os.environ.get("PYTEST_CURRENT_TEST"))


def last_words(outputs: dict[int, Output]) -> list[str]:
    """Return the last lines of what ranks printed so far."""
    tails = {}
    for rank, output in outputs.items():
        printed = (output.stdout + output.stderr).rstrip().split("\n")
        kept = [line[:LIVE_WIDTH] for line in printed[-LIVE_LINES:]]
        tails[rank] = "\n".join(kept)
    return blocks(merge(tails))


def collect(result: AsyncResult, targets: list[int]) -> dict[int, Output]:
    """Return what each rank said, by rank."""
    outputs = {}
    told = result._metadata  # `metadata` parses eight dates, a tenth of a short cell
    for rank, seen in zip(targets, told, strict=True):
        value = (seen["execute_result"] or {}).get("data", {})
        rich = [message["data"] for message in seen["outputs"]]
        if set(value) - {"text/plain"}:
            rich.append(value)
            value = {}
        outputs[rank] = Output(
            stdout=seen["stdout"] or "",
            stderr=seen["stderr"] or "",
            value=value.get("text/plain", ""),
            rich=rich,
        )
    return outputs


def print_said(outputs: dict[int, Output]) -> None:
    """Print what the ranks said, merged, in rank order."""
    print_blocks(merge({r: text_of(o) for r, o in outputs.items()}), sys.stdout)
    print_blocks(merge({r: o.stderr for r, o in outputs.items()}), sys.stderr)
    drawn = {
        rank: [sorted(data.items(), key=str) for data in output.rich]
        for rank, output in outputs.items()
    }
    for ranks, bundles in merge(drawn):
        # not printed: what is printed is drawn together when a notebook is stored
        display({"text/plain": tag(ranks)}, raw=True)
        for data in bundles:
            display(dict(data), raw=True)


def text_of(output: Output) -> str:
    """Return printed text and last value of one rank as one text."""
    parts = [part.rstrip("\n") for part in (output.stdout, output.value) if part]
    return "\n".join(parts)


def print_blocks(said: Iterable[tuple[list[int], str]], stream) -> None:
    """Print one block for each group of ranks, in one write."""
    if rows := blocks(said):
        print("\n".join(rows), file=stream, flush=True)


def blocks(said: Iterable[tuple[list[int], str]]) -> list[str]:
    """Return the lines of one block for each group of ranks."""
    rows = []
    for ranks, text in said:
        first, *more = text.rstrip("\n").split("\n")
        if more:
            rows += [tag(ranks), *indent(text.rstrip("\n"))]
        else:
            rows.append(f"{tag(ranks)} {first}")
    return rows
