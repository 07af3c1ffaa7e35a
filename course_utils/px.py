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

from IPython.display import clear_output, display
from ipyparallel.client.magics import ParallelMagics

from course_utils.text import indent, readable, tag

if TYPE_CHECKING:
    from ipyparallel import AsyncResult

    from course_utils.ranks import Ranks

LIVE_AFTER = 1.0  # seconds before the live lines appear
LIVE_PERIOD = 0.5  # seconds between updates of the live lines
OUTPUT_LIMIT = 5.0  # seconds to wait for output after the last reply


class RankError(RuntimeError):
    """A cell or function failed on one or more ranks; the text says where."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


@dataclass(frozen=True)
class Output:
    """What one rank said in one cell."""

    stdout: str = ""
    stderr: str = ""
    value: str = ""  # text of the last expression
    rich: list[dict] = field(default_factory=list)  # figures and the like
    error: str = ""


class RankMagics(ParallelMagics):
    """`%px` and `%%px` on the ranks of one world."""

    stream_output = False

    def __init__(self, shell, ranks: Ranks) -> None:
        super().__init__(shell, ranks.view)
        self.ranks = ranks
        self._live = False
        self.magics["cell"]["px"] = self.by_rank

    def _eval_target_str(self, ts: str) -> list[int]:
        """Turn the argument of ``--targets``, which names ranks, into engine ids."""
        return [self.ranks.ids[rank] for rank in parse_ranks(ts, len(self.ranks))]

    def by_rank(self, line: str = "", cell: str | None = None):
        """Run the cell on every rank, or on those named by ``--targets``.

        Output comes in rank order; ranks that said the same share one block.
        ``--targets 0``, ``--targets 0,2`` and ``--targets 1:3`` choose ranks.
        """
        self._live = not quiet()
        try:
            return self.cell_px(line, cell)
        finally:
            self._live = False

    def parallel_execute(
        self, cell: str, block: bool | None = None, save_name: str | None = None, **_
    ):
        """Run code on the ranks; show what they said, or raise `RankError`."""
        if self.ranks.stopped:
            raise RankError("the ranks have been stopped: call launch() again")
        targets = self.ranks.ranks_of(self.view.targets)
        result = self.view.execute(cell, silent=False, block=False)
        self.last_result = result
        if save_name:
            self.shell.user_ns[save_name] = result
        if block is False:
            return result
        self._wait(result, targets)
        show(collect(result, targets))
        return None

    def _wait(self, result: AsyncResult, targets: list[int]) -> None:
        try:
            if not result.wait(LIVE_AFTER) and self._live:
                show_live(result, targets)
            result.wait()
        except KeyboardInterrupt:
            ids = [self.ranks.ids[rank] for rank in targets]
            self.view.client.send_signal("SIGINT", targets=ids, block=True)
            result.wait(OUTPUT_LIMIT)
        result.wait_for_output(OUTPUT_LIMIT)


def quiet() -> bool:
    """Tell whether nobody watches: no live lines in tests and under CI."""
    return bool(os.environ.get("CI") or os.environ.get("PYTEST_CURRENT_TEST"))


def parse_ranks(text: str, world_size: int) -> list[int]:
    """Return the ranks that ``--targets`` names: "2", "0,2", "1:3", "::2", "all".

    Raises RankError for a rank that does not exist.
    """
    everyone, chosen = range(world_size), []
    try:
        for part in text.strip("[]() ").split(","):
            if part == "all":
                chosen.extend(everyone)
            elif ":" in part:
                bounds = [int(b) if b.strip() else None for b in part.split(":")]
                chosen.extend(everyone[slice(*bounds)])
            elif part.strip():
                chosen.append(everyone[int(part)])
    except (ValueError, TypeError):
        raise RankError(
            f"--targets {text}: expected ranks, as in 0 or 0,2 or 1:3 or all"
        ) from None
    except IndexError:
        raise RankError(
            f"--targets {text}: rank {part.strip()} does not exist; "
            f"the ranks are 0 to {world_size - 1}"
        ) from None
    if not chosen:
        raise RankError(f"--targets {text}: no rank is named")
    return sorted(set(chosen))


def collect(result: AsyncResult, targets: list[int]) -> dict[int, Output]:
    """Return what each rank said, by rank."""
    replies = result.get(return_exceptions=True)
    outputs = {}
    for i, rank in enumerate(targets):
        seen, reply = result.metadata[i], replies[i]
        value = (seen["execute_result"] or {}).get("data", {})
        rich = [message["data"] for message in seen["outputs"]]
        if set(value) - {"text/plain"}:
            rich.append(value)
            value = {}
        error = error_text(reply) if isinstance(reply, BaseException) else ""
        outputs[rank] = Output(
            stdout=seen["stdout"],
            stderr=seen["stderr"],
            value=value.get("text/plain", ""),
            rich=rich,
            error=error,
        )
    return outputs


def error_text(error: BaseException) -> str:
    """Return one error as a short block: name, place, message."""
    name = getattr(error, "ename", type(error).__name__)
    message = readable(getattr(error, "evalue", str(error)))
    places = (getattr(error, "traceback", "") or "").splitlines()
    first = f"{name} {places[0]}" if places else name
    return "\n".join([first, *indent("\n".join([*places[1:], message]))])


def show(outputs: dict[int, Output]) -> None:
    """Print what the ranks said, merged, in rank order; raise what they raised."""
    said = merge({rank: text_of(o) for rank, o in outputs.items()})
    complained = merge({rank: o.stderr for rank, o in outputs.items()})
    print_blocks(said, sys.stdout)
    print_blocks(complained, sys.stderr)
    drawn = {r: [sorted(d.items(), key=str) for d in o.rich] for r, o in outputs.items()}
    for ranks, data in merge(drawn):
        print(tag(ranks), flush=True)
        for bundle in data:
            display(dict(bundle), raw=True)
    failed = merge({rank: o.error for rank, o in outputs.items()})
    if failed:
        raise RankError("\n".join(f"{tag(r)} {text}" for r, text in failed))


def text_of(output: Output) -> str:
    """Return printed text and last value of one rank as one text."""
    parts = [part.rstrip("\n") for part in (output.stdout, output.value) if part]
    return "\n".join(parts)


def merge(said: dict[int, object]) -> list[tuple[list[int], object]]:
    """Group the ranks that said the same, in order of their first rank."""
    groups: list[tuple[list[int], object]] = []
    for rank, words in said.items():
        for ranks, same in groups:
            if words == same:
                ranks.append(rank)
                break
        else:
            if words:
                groups.append(([rank], words))
    return groups


def print_blocks(blocks: Iterable[tuple[list[int], str]], stream) -> None:
    """Print one block for each group of ranks, in one write."""
    lines = []
    for ranks, text in blocks:
        first, *more = text.rstrip("\n").split("\n")
        if more:
            lines += [tag(ranks), *indent(text.rstrip("\n"))]
        else:
            lines.append(f"{tag(ranks)} {first}")
    if lines:
        print("\n".join(lines), file=stream, flush=True)


def show_live(result: AsyncResult, targets: list[int]) -> None:
    """Show a line for each rank until the cell ends, then take them away."""
    handle = display({"text/plain": ""}, raw=True, display_id=True)
    started = time.monotonic() - LIVE_AFTER
    try:
        while not result.wait(LIVE_PERIOD):
            text = live_lines(result, targets, time.monotonic() - started)
            handle.update({"text/plain": text}, raw=True)
    finally:
        clear_output()


def live_lines(result: AsyncResult, targets: list[int], seconds: float) -> str:
    """Say for each rank whether it has finished, or what it is in."""
    doing: dict[int, str] = {}
    for i, rank in enumerate(targets):
        activity = result.metadata[i]["data"].get("activity")
        if result._children[i].done():
            doing[rank] = "finished"
        else:
            doing[rank] = str(activity or f"runs for {seconds:.1f} s")
    return "\n".join(f"{tag(ranks)} {text}" for ranks, text in merge(doing))
