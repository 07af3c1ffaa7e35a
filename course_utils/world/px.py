"""`%%px` read by rank.

ipyparallel's magic with its display replaced: output in rank order, ranks that
said the same share one block, errors as one short block each, and a line per
rank for cells that take long, which is gone when the cell ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ipyparallel.client.magics import ParallelMagics
from IPython import get_ipython
from IPython.display import clear_output, display

from course_utils.stuck import RankState, lines
from course_utils.text import RankError, indent, merge, parse_ranks, tag
from course_utils.world.cell_lines import PX
from course_utils.world.ending import fail

if TYPE_CHECKING:
    from ipyparallel import AsyncResult

    from course_utils.world.ranks import Ranks

LIVE_AFTER = 1.0  # seconds before the live lines appear
OUTPUT_LIMIT = 5.0  # seconds to wait for output after the last reply


@dataclass(frozen=True)
class Output:
    """What one rank said in one cell."""

    stdout: str = ""
    stderr: str = ""
    value: str = ""  # text of the last expression
    rich: list[dict] = field(default_factory=list)  # figures and the like
    error: BaseException | None = None


class RankMagics(ParallelMagics):
    """`%px` and `%%px` on the ranks of one world."""

    stream_output = False

    def __init__(self, shell, ranks: Ranks) -> None:
        super().__init__(shell, ranks.view)
        self.ranks = ranks
        self._live = False
        self._last: tuple[list[int], str] = [], ""  # ranks and code of `last_result`
        self.magics["cell"]["px"] = self.by_rank

    def _eval_target_str(self, ts: str) -> list[int]:
        """Turn the argument of ``--targets``, which names ranks, into engine ids."""
        return [self.ranks.ids[rank] for rank in parse_ranks(ts, len(self.ranks))]

    def by_rank(self, line: str = "", cell: str = ""):
        """Run the cell on every rank, or on those named by ``--targets``.

        Output comes in rank order; ranks that said the same share one block.
        ``--targets 0``, ``--targets 0,2`` and ``--targets 1:3`` choose ranks.
        Reports count lines as an editor does: the line of ``%%px`` is line 1.
        """
        self._live = not quiet()
        try:
            return self.cell_px(line, PX + cell)
        finally:
            self._live = False

    def parallel_execute(
        self, cell: str, block: bool | None = None, save_name: str | None = None, **_
    ):
        """Run code on the ranks; show what they said, or raise `RankError`."""
        self.ranks.check_alive()
        targets = self.ranks.ranks_of(self.view.targets)
        result = self.view.execute(cell, silent=False, block=False)
        self.last_result, self._last = result, (targets, cell)
        if save_name:
            self.shell.user_ns[save_name] = result
        if block is False:
            return result
        self._show(result, targets, cell)
        return None

    def result(self, line: str = ""):
        """Wait for the last ``%%px --noblock``, and show by rank what it said."""
        if self.last_result is None or line.strip():
            return super().result(line)
        self._show(self.last_result, *self._last)
        return None

    result.parser = ParallelMagics.result.parser  # of the options

    def _show(self, result: AsyncResult, targets: list[int], cell: str) -> None:
        """Wait for a cell; show what the ranks said, or raise `RankError`."""
        live = Live() if self._live else None
        try:
            self.ranks.watch(result, targets, cell, live)
        except RankError as report:
            print_said(collect(result, targets))
            raise report from None
        finally:
            if live:
                live.clear()
        result.wait_for_output(OUTPUT_LIMIT)
        outputs = collect(result, targets)
        print_said(outputs)
        errors = {rank: o.error for rank, o in outputs.items() if o.error is not None}
        if errors:
            fail(self.ranks, errors)


def register(ranks: Ranks) -> None:
    """Make `%px` and `%%px` run on these ranks, where there is an IPython shell."""
    shell = get_ipython()
    if shell is not None:
        shell.register_magics(RankMagics(shell, ranks))


class Live:
    """A line for each rank while a cell runs, which is gone when it ends."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._handle = None

    def __call__(self, states: dict[int, RankState]) -> None:
        seconds = time.monotonic() - self._started
        if seconds < LIVE_AFTER:
            return
        data = {"text/plain": "\n".join([f"{seconds:.0f} s", *lines(states)])}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def clear(self) -> None:
        """Take the lines away."""
        if self._handle is not None:
            clear_output()


def quiet() -> bool:
    """Tell whether nobody watches: no live lines in tests and under CI."""
    return bool(os.environ.get("CI") or os.environ.get("PYTEST_CURRENT_TEST"))


def collect(result: AsyncResult, targets: list[int]) -> dict[int, Output]:
    """Return what each rank said, by rank."""
    outputs = {}
    told = result._metadata  # `metadata` parses eight dates, a tenth of a short cell
    for rank, seen, child in zip(targets, told, result._children, strict=True):
        reply = child.result() if child.done() else None
        value = (seen["execute_result"] or {}).get("data", {})
        rich = [message["data"] for message in seen["outputs"]]
        if set(value) - {"text/plain"}:
            rich.append(value)
            value = {}
        outputs[rank] = Output(
            stdout=seen["stdout"],
            stderr=seen["stderr"],
            value=value.get("text/plain", ""),
            rich=rich,
            error=reply if isinstance(reply, BaseException) else None,
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


def print_blocks(blocks: Iterable[tuple[list[int], str]], stream) -> None:
    """Print one block for each group of ranks, in one write."""
    rows = []
    for ranks, text in blocks:
        first, *more = text.rstrip("\n").split("\n")
        if more:
            rows += [tag(ranks), *indent(text.rstrip("\n"))]
        else:
            rows.append(f"{tag(ranks)} {first}")
    if rows:
        print("\n".join(rows), file=stream, flush=True)
