"""Will it fit, and how long will it take? The answer for a machine you do not have."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass

from course_utils.measure.link import Link
from course_utils.measure.prediction import Cost, cost, peak_formula, time_formula
from course_utils.measure.ways import BACKENDS, WAYS
from course_utils.text import (
    aligned,
    bytes_of,
    rate_of,
    seconds_of,
    show_bytes,
    show_seconds,
)

MOST_RANKS = 10**7
NEGATIVE = re.compile(r"-[\d.].*")  # "-5us" is a value, to be refused as one
GATHERS = tuple(  # the ways that begin with a shard on every rank
    name
    for name, way in WAYS.items()
    if way.holds != "its part" and way.operation in ("all_gather", "gather")
) + ("write shards",)
HEADINGS = ("way", "fits", "a rank", "root", "sent in all", "time", "whole on")
EXAMPLE = (
    "plan --shard 64MiB --ranks 256 --memory 80GiB --bandwidth 25GB/s --latency 5us"
)


@dataclass(frozen=True)
class Row:
    """One way on the planned machine.

    each, root: bytes at the worst moment, the shard included.
    """

    way: str
    cost: Cost
    each: int
    root: int
    fits: bool
    seconds: float

    @property
    def most(self) -> int:
        """Return the bytes of the rank that needs most."""
        return max(self.each, self.root)


@dataclass(frozen=True)
class Plan:
    """All ways to gather, on one machine; shown as a table."""

    rows: tuple[Row, ...]
    backend: str
    world_size: int
    shard_bytes: int
    memory: int
    link: Link

    def row(self, way: str) -> Row:
        """Return the row of one way."""
        return next(row for row in self.rows if row.way == way)

    def cheapest(self, holder: str) -> Row | None:
        """Return the fastest way that fits and leaves the whole on `holder`.

        Of ways that differ by less than 1 %, the one that needs least memory.
        """
        fitting = [r for r in self.rows if r.fits and WAYS[r.way].holds == holder]
        if not fitting:
            return None
        best = min(row.seconds for row in fitting)
        near = [row for row in fitting if row.seconds <= 1.01 * best]
        return min(near, key=lambda row: (row.most, row.seconds))

    def __repr__(self) -> str:
        whole = self.world_size * self.shard_bytes
        title = (
            f"{self.world_size} ranks × {show_bytes(self.shard_bytes)} = "
            f"{show_bytes(whole)}, {self.backend}; {show_bytes(self.memory)} a rank, "
            f"{self.link.bandwidth / 1e9:g} GB/s, {show_seconds(self.link.latency)}"
        )
        return "\n".join([title, "", aligned([HEADINGS, *map(_cells, self.rows)])])

    def advice(self) -> str:
        """Say which way is cheapest, for each place where the whole may be needed."""
        return "\n".join(
            self._advice(holder) for holder in ("every rank", "the root", "its part")
        )

    def _advice(self, holder: str) -> str:
        best = self.cheapest(holder)
        rows = [row for row in self.rows if WAYS[row.way].holds == holder]
        where = f"whole on {holder}" if holder != "its part" else "whole nowhere"
        if best and not best.cost.steps:
            return f"{where}: {best.way}; nothing is sent, the disk sets the time"
        if best is None:
            least = min(rows, key=lambda row: row.most)
            short = show_bytes(least.most - self.memory)
            return (
                f"{where}: no way fits; {least.way} needs least, "
                f"{short} more than there is"
            )
        others = [r for r in rows if r.fits and r is not best]
        tied = [r for r in others if r.seconds <= 1.01 * best.seconds]
        why = "it takes least time" if others else "no other way fits"
        if tied:
            why = f"as fast as {_names(tied)}\n  and with no more memory"
        return f"{where}: {best.way} ({show_seconds(best.seconds)}), {why}"

    def formulas(self) -> str:
        """Return the formulas that the table was worked out with."""
        rows = [
            (
                r.way,
                peak_formula(r.way, self.backend),
                time_formula(r.way, self.backend),
            )
            for r in self.rows
        ]
        note = {
            "gloo": "Memory as measured on gloo, with 2 to 4 ranks.",
            "nccl": "Memory as torch's source says for nccl; not measured by us.",
        }
        symbols = (
            "W ranks, S bytes of a shard, α latency, B bandwidth; the peak is beside "
            "the\nshard, which the table includes. The time of pickling is left out.\n"
        )
        heads = ("way", "peak of a rank", "time")
        return aligned([heads, *rows]) + f"\n{symbols}{note[self.backend]}"


def plan(
    shard_bytes: int,
    world_size: int,
    memory: int,
    link: Link,
    backend: str = "nccl",
) -> Plan:
    """Work out every way to gather for ranks with `memory` bytes each.

    Raises ValueError for no ranks, or a budget smaller than one shard.
    """
    if not 1 <= world_size <= MOST_RANKS:
        raise ValueError(
            f"ranks: expected a whole number from 1 to {MOST_RANKS}, got {world_size}"
        )
    if memory < shard_bytes:
        raise ValueError(
            f"memory: expected at least one shard, {show_bytes(shard_bytes)}, got "
            f"{show_bytes(memory)}"
        )
    rows = []
    for way in GATHERS:
        found = cost(way, world_size, shard_bytes, backend)
        each, root = found.peak + shard_bytes, found.root_peak + shard_bytes
        fits = max(each, root) <= memory
        rows.append(Row(way, found, each, root, fits, found.seconds(link)))
    return Plan(tuple(rows), backend, world_size, shard_bytes, memory, link)


def _cells(row: Row) -> Iterable[str]:
    return (
        row.way,
        "yes" if row.fits else "no",
        show_bytes(row.each),
        show_bytes(row.root),
        show_bytes(row.cost.sent),
        show_seconds(row.seconds) if row.cost.steps else "–",
        WAYS[row.way].holds,
    )


def _names(rows: list[Row]) -> str:
    return " and ".join(row.way for row in rows[:2])


def plan_command(commands: argparse._SubParsersAction) -> None:
    """Add the command `plan`."""
    parser = commands.add_parser(
        "plan",
        help="which way to gather fits a machine, and how long it takes",
        description="Work out which way to gather fits, and how long each takes.",
        epilog=f"Example: python -m course_utils {EXAMPLE}",
    )
    parser.add_argument("--shard", required=True, help="bytes a rank holds: 64MiB")
    parser.add_argument("--ranks", required=True, help="number of ranks: 256")
    parser.add_argument("--memory", required=True, help="memory of a rank: 80GiB")
    parser.add_argument("--bandwidth", required=True, help="of a rank's link: 25GB/s")
    parser.add_argument("--latency", required=True, help="of a message: 5us")
    parser.add_argument("--backend", choices=BACKENDS, default="nccl")
    parser._negative_number_matcher = NEGATIVE
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print table, advice and formulas; return the exit status."""
    if not options.ranks.lstrip("+-").isdecimal():
        raise ValueError(
            f"--ranks: expected a whole number such as 256, got {options.ranks!r}"
        )
    link = Link(
        seconds_of(options.latency, "--latency"),
        rate_of(options.bandwidth, "--bandwidth"),
    )
    planned = plan(
        bytes_of(options.shard, "--shard"),
        int(options.ranks),
        bytes_of(options.memory, "--memory"),
        link,
        options.backend,
    )
    print(planned, planned.advice(), planned.formulas(), sep="\n\n")
    return 0
